/* The law of chunks (docs/law.md): few chunks of unequal sizes that keep every dimension of a network busy.
 * C99, this header alone, no allocation. The caller gives a workspace; hourglass_plan fills its field `best`.
 * Sizes and orders are those of chunk_law.py, if compiled with -ffp-contract=off. Licence: Apache-2.0. */
#ifndef HOURGLASS_H
#define HOURGLASS_H
#include <math.h>
#include <string.h>
#define HG_DIMENSIONS 5
#define HG_CHUNKS 64
#define HG_PORTIONS 24
#define HG_LEAST_GAP 1e-6
#define HG_FLOAT_ERROR 1e-12
typedef struct {
    int npus;
    double byte_time;  /* time in which a byte leaves an NPU */
    double fixed, lag; /* time for which a stage holds the dimension besides, and from then to its result */
} hg_dimension;

typedef struct {
    double share, begin, tail;
    long long size;           /* bytes, in the result of hourglass_plan */
    int path[HG_DIMENSIONS];  /* dimensions in the order of the scatters; gathers go backwards */
} hg_chunk;

typedef struct {
    int num_chunks, is_solid, width;
    hg_chunk chunks[HG_CHUNKS];
    int num_stages[HG_DIMENSIONS];               /* per dimension */
    short stages[HG_DIMENSIONS][2 * HG_CHUNKS];      /* 2 * chunk + phase; phase 0 scatters, 1 gathers */
} hg_block;

typedef struct {
    const hg_dimension *network;
    int num_dimensions, most;
    char is_known[1 << HG_DIMENSIONS][2];
    hg_block blocks[1 << HG_DIMENSIONS][2];      /* per set of dimensions and number of phases */
    hg_block tried, best;
} hg_workspace;

typedef struct {
    double share, head, foot;    /* of a portion; times until its middle begins, and from the end of that */
    const hg_block *block;       /* of the dimensions `group` */
    int group, first_chunk;
    int order[2][HG_CHUNKS];     /* of scatters, and of gathers backwards, if a single dimension comes first */
} hg_visit;

static const hg_block hg_empty;
static const hg_block *hg_block_of(hg_workspace *w, int group, int phases);

static int hg_count(int group) {
    return group ? 1 + hg_count(group & (group - 1)) : 0;
}

static double hg_npus(const hg_workspace *w, int group) {
    double product = 1;
    for (int k = 0; k < w->num_dimensions; k++) if (group >> k & 1) product *= w->network[k].npus;
    return product;
}

static double hg_least_time(const hg_workspace *w, int group) {
    double bandwidth = 0;
    for (int k = 0; k < w->num_dimensions; k++) if (group >> k & 1) bandwidth += 1 / w->network[k].byte_time;
    return (1 - 1 / hg_npus(w, group)) / bandwidth;
}

static int hg_alone(int group) {
    return group & 1 ? 0 : 1 + hg_alone(group >> 1);
}

/* Time of a collective of some bytes, every dimension serving its stages in the order of the block. */
static double hg_makespan(const hg_workspace *w, const hg_block *b, double size) {
    double ready[HG_CHUNKS] = {0}, free_at[HG_DIMENSIONS] = {0}, end = 0;
    int served[HG_DIMENSIONS] = {0}, place[HG_CHUNKS] = {0}, moved = 1;
    while (moved) {
        moved = 0;
        for (int k = 0; k < w->num_dimensions; k++)
            while (served[k] < b->num_stages[k]) {
                const hg_dimension *d = &w->network[k];
                int number = b->stages[k][served[k]] / 2, phase = b->stages[k][served[k]] % 2;
                const hg_chunk *c = &b->chunks[number];
                int local = 0;
                double npus = 1;
                while (c->path[local] != k) npus *= w->network[c->path[local++]].npus;
                if (place[number] != (phase ? 2 * b->width - 1 - local : local)) break;
                double held = c->share * size / npus, begin = fmax(ready[number], free_at[k]);
                free_at[k] = begin + held * d->byte_time * (d->npus - 1) / d->npus + d->fixed;
                ready[number] = free_at[k] + d->lag;
                end = fmax(end, ready[number]);
                place[number]++, served[k]++, moved = 1;
            }
    }
    return end;
}

/* Sizes of portions, of which the first is 1, and whether they gather in the reverse order of their scatters. */
static double hg_growing_sizes(int count, double shrunk, int phases, int may_nest, double *sizes, int *is_nested) {
    double growth = fmax(1, 2 * shrunk), both = 0, nested = 0;
    for (int j = 0; j < count; j++) {
        sizes[j] = pow(growth, j < count - 1 - j ? j : count - 1 - j);
        both += sizes[j];
        nested += pow(shrunk, j);
    }
    *is_nested = phases == 2 && may_nest && nested > both;
    if (phases == 2 && !*is_nested) return both;
    for (int j = 0; j < count; j++) sizes[j] = pow(shrunk, j);
    return nested;
}

/* Serve chunks by their deadlines: fills `order` and `begins`, and returns by how much the latest is late. */
static double hg_in_turn(int count, const double *times, const double *deadlines, int *order, double *begins) {
    double time = 0, late = 0;
    for (int i = 0; i < count; i++) { /* a stable insertion sort */
        int j = i;
        for (; j > 0 && deadlines[order[j - 1]] > deadlines[i]; j--) order[j] = order[j - 1];
        order[j] = i;
    }
    for (int i = 0; i < count; i++) {
        begins[order[i]] = time;
        time += times[order[i]];
        late = fmax(late, time - deadlines[order[i]]);
    }
    return late;
}

/* Append stages of a portion on a group: first scatters (part 0), last gathers (2), or the rest, perhaps one phase. */
static int hg_push(hg_block *to, const hg_visit *v, int group, int part, int phases, int only) {
    for (int k = 0; k < HG_DIMENSIONS; k++) {
        int is_block = v->group == group, count = v->block->num_chunks;
        int length = is_block ? v->block->num_stages[k] : part == 1 ? count * phases : count;
        for (int i = 0; (group >> k & 1) && i < length; i++) {
            int j = part == 2 ? length - 1 - i : i, stage;
            if (is_block) stage = v->block->stages[k][j] | (part == 2);
            else stage = part == 1 ? i / phases * 2 + i % phases : 2 * v->order[part / 2][j] + part / 2;
            if (only >= 0 && stage % 2 != only) continue;
            if (to->num_stages[k] == 2 * HG_CHUNKS) return 0;
            to->stages[k][to->num_stages[k]++] = (short)(stage + 2 * v->first_chunk);
        }
    }
    return 1;
}

/* Add the chunks of a portion that visits `first` before `other`, and its begin and tail. */
static int hg_add(hg_workspace *w, hg_block *to, hg_visit *v, int first, int other, int phases, double before,
                  double after) {
    int alone = hg_count(first) == 1;
    const hg_block *b = alone ? hg_block_of(w, other, phases) : hg_block_of(w, first, 1);
    double time = v->share * hg_least_time(w, first), part = v->share / hg_npus(w, first);
    double times[HG_CHUNKS], dead[2][HG_CHUNKS], begins[2][HG_CHUNKS];
    v->block = b, v->group = alone ? other : first, v->first_chunk = to->num_chunks, v->head = v->foot = time;
    if (!b->num_chunks || to->num_chunks + b->num_chunks > HG_CHUNKS) return 0;
    for (int i = 0; i < b->num_chunks; i++) {
        times[i] = b->chunks[i].share * time;
        dead[0][i] = b->chunks[i].begin * part, dead[1][i] = b->chunks[i].tail * part;
        begins[0][i] = begins[1][i] = b->chunks[i].begin * v->share;
    }
    if (alone) {
        v->head = hg_in_turn(b->num_chunks, times, dead[0], v->order[0], begins[0]);
        v->foot = hg_in_turn(b->num_chunks, times, dead[1], v->order[1], begins[1]);
    }
    for (int i = 0; i < b->num_chunks; i++) {
        hg_chunk *c = &to->chunks[to->num_chunks++];
        const int *path = b->chunks[i].path;
        c->share = b->chunks[i].share * v->share;
        c->begin = begins[0][i] + before, c->tail = begins[1][i] + after;
        memcpy(c->path + alone, path, (size_t)b->width * sizeof(int));
        c->path[alone ? 0 : b->width] = hg_alone(alone ? first : other);
    }
    return 1;
}

/* The block in which a share visits `other` first, and portions of these sizes `first`; 0 if it has too many chunks. */
static int hg_of_portions(hg_workspace *w, hg_block *to, int first, int other, const double *sizes, int count,
                          double sum, double share, int phases, int is_nested) {
    hg_visit visits[HG_PORTIONS + 2], *last = &visits[count];
    double unit = hg_least_time(w, first), served = phases * hg_least_time(w, other) / hg_npus(w, first);
    double start = share * hg_least_time(w, other), total = 0, before = 0;
    memset(to->num_stages, 0, sizeof to->num_stages);
    to->num_chunks = 0, to->width = hg_count(first | other);
    last->share = share, last->block = &hg_empty, last->group = 0;
    if (share > 0 && !hg_add(w, to, last, other, first, phases, 0, 0)) return 0;
    to->is_solid = last->block->is_solid;
    for (int j = 0; j < count; j++) total += visits[j].share = sizes[j] * (1 - share) / sum;
    for (int j = 0; j < count; j++) {
        double after = total - before - visits[j].share;
        if (!hg_add(w, to, &visits[j], first, other, phases, before * unit, after * unit)) return 0;
        to->is_solid &= visits[j].block->is_solid;
        if (before * unit + visits[j].head > (start + before * served) * (1 + HG_FLOAT_ERROR)) to->is_solid = 0;
        before += visits[j].share;
    }
    before = 0;
    for (int j = count - 1; phases == 2 && j >= 0; before += visits[j--].share)
        if (before * unit + visits[j].foot > (start + before * served) * (1 + HG_FLOAT_ERROR)) to->is_solid = 0;
    int ok = hg_push(to, last, other, 0, phases, -1);
    for (int j = 0; j < count; j++) ok &= hg_push(to, &visits[j], first, 0, phases, -1);
    ok &= hg_push(to, last, first, 1, phases, -1);
    for (int j = 0; j < count; j++) ok &= hg_push(to, &visits[j], other, 1, phases, is_nested ? 0 : -1);
    for (int j = count - 1; is_nested && j >= 0; j--) ok &= hg_push(to, &visits[j], other, 1, phases, 1);
    for (int j = 0; phases == 2 && j < count; j++)
        ok &= hg_push(to, &visits[is_nested ? count - 1 - j : j], first, 2, phases, -1);
    return ok && (phases == 1 || hg_push(to, last, other, 2, phases, -1));
}

/* The solid block of two groups with fewest portions, or one in which `other` is idle for a short time (theorem 4). */
static int hg_of_two(hg_workspace *w, hg_block *to, int first, int other, int phases, int is_few) {
    double sizes[HG_PORTIONS + 1], npus = hg_npus(w, first), ratio = hg_least_time(w, other) / hg_least_time(w, first);
    double balance = 1 - ratio / npus, balanced = balance / (balance + ratio - 1 / hg_npus(w, other));
    int is_slow = ratio >= npus, may_nest = is_slow && hg_count(other) == 1, is_nested;
    for (int p = 1; p <= phases && !is_few; p++)
        if (is_slow || !hg_block_of(w, other, p)->is_solid || !hg_block_of(w, first, p)->is_solid) return 0;
    for (int count = 1; count <= w->most; count++) {
        double sum = hg_growing_sizes(count, ratio / npus, phases, may_nest, sizes, &is_nested);
        double share = 1 / (1 + ratio * sum);
        if (is_few && count < w->most && ratio * sum < npus / HG_LEAST_GAP) continue;
        if (!is_slow) share = is_few ? fmax(share, balanced) : balanced;
        else if (phases * ratio * share * (1 - 1 / npus) > phases / hg_growing_sizes(count + 1, ratio / npus, phases,
                 hg_count(other) == 1, sizes, &is_nested)) share = 0;
        sum = hg_growing_sizes(count + (share == 0), ratio / npus, phases, may_nest, sizes, &is_nested);
        if (!hg_of_portions(w, to, first, other, sizes, count + (share == 0), sum, share, phases, is_nested)) return 0;
        to->is_solid &= !is_few;
        if (to->is_solid || is_few) return 1;
    }
    return 0;
}

/* The solid block of fewest chunks, or the shortest one; no chunks if all have more than HG_CHUNKS. */
static const hg_block *hg_block_of(hg_workspace *w, int group, int phases) {
    hg_block *best = &w->blocks[group][phases - 1], tried;
    double least = HUGE_VAL;
    if (w->is_known[group][phases - 1]) return best;
    w->is_known[group][phases - 1] = 1;
    memset(best, 0, sizeof *best);
    if (hg_count(group) == 1) {
        int k = hg_alone(group);
        best->num_chunks = best->is_solid = best->width = 1;
        best->chunks[0].share = 1, best->chunks[0].path[0] = k;
        best->num_stages[k] = phases, best->stages[k][0] = 0, best->stages[k][1] = 1;
        return best;
    }
    for (int pass = 0; pass < 2 && !best->is_solid; pass++)
        for (int k = 0, pairs = hg_count(group) > 2 ? HG_DIMENSIONS : 1; k < HG_DIMENSIONS && pairs; k++) {
            int one = 1 << k, two = group & ~one;
            if (!(group & one)) continue;
            pairs--;
            double ratio = hg_least_time(w, two) / hg_least_time(w, one);
            int in_order = ratio * ratio * hg_npus(w, two) >= hg_npus(w, one);
            if (!hg_of_two(w, &tried, in_order ? one : two, in_order ? two : one, phases, pass)) continue;
            double value = pass ? hg_makespan(w, &tried, 1) : tried.num_chunks;
            if (value < least) least = value, *best = tried;
        }
    return best;
}

/* One chunk, which visits the dimension of most bandwidth first. */
static void hg_single(hg_workspace *w, int phases) {
    hg_block *b = &w->tried;
    int *path = b->chunks[0].path;
    memset(b, 0, sizeof *b);
    b->num_chunks = 1, b->width = w->num_dimensions, b->chunks[0].share = 1;
    for (int k = 0; k < b->width; k++) {
        int j = k;
        for (; j > 0 && w->network[path[j - 1]].byte_time > w->network[k].byte_time; j--) path[j] = path[j - 1];
        path[j] = k;
        b->num_stages[k] = phases, b->stages[k][1] = 1;
    }
}

/* Fill w->best for phases = 2, an all-reduce, or 1, a reduce-scatter (backwards: an all-gather); returns its time. */
static double hourglass_plan(hg_workspace *w, const hg_dimension *network, int num_dimensions, int phases,
                             long long size, long long unit, int most_chunks) {
    static const int most[] = {0, 1, 2, 3, 4, HG_PORTIONS};
    double least = HUGE_VAL, total = 0, rest[HG_CHUNKS];
    long long missing = size / unit;
    hg_block *b = &w->best;
    w->network = network, w->num_dimensions = num_dimensions;
    for (int i = 0; i < 6 && !(i > 1 && w->tried.is_solid); i++) {
        w->most = most[i];
        memset(w->is_known, 0, sizeof w->is_known);
        if (i) w->tried = *hg_block_of(w, (1 << num_dimensions) - 1, phases);
        else hg_single(w, phases);
        if (!w->tried.num_chunks || w->tried.num_chunks > most_chunks) continue;
        double time = hg_makespan(w, &w->tried, (double)size);
        if (time < least) least = time, *b = w->tried;
    }
    for (int i = 0; i < b->num_chunks; i++) total += b->chunks[i].share;
    for (int i = 0; i < b->num_chunks; i++) {
        double exact = b->chunks[i].share / total * (double)(size / unit);
        b->chunks[i].size = unit * (long long)floor(exact);
        rest[i] = floor(exact) - exact;
        missing -= (long long)floor(exact);
    }
    for (; missing > 0; missing--) { /* largest remainders first */
        int next = 0;
        for (int i = 1; i < b->num_chunks; i++)
            if (rest[i] < rest[next]) next = i;
        b->chunks[next].size += unit;
        rest[next] = HUGE_VAL;
    }
    return least;
}
#endif
