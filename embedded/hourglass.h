/* The law of chunks (docs/law.md): few chunks of unequal sizes that keep every dimension of a network busy.
 * C99, this header alone, no allocation. The caller gives a workspace; hourglass_plan fills its field `best`.
 * Sizes and orders are those of chunk_law.py, if compiled with -ffp-contract=off. Licence: Apache-2.0. */
#ifndef HOURGLASS_H
#define HOURGLASS_H
#include <math.h>
#include <string.h>
enum { HG_DIMENSIONS = 5, HG_LENGTH = 2 * HG_DIMENSIONS, HG_CHUNKS = 25 /* of two dimensions */ };
enum { HG_FEW = 9 /* mirrored chunks; of equal ones there are fewer */, HG_ENTRIES = 131 /* of the largest table */ };
enum { HG_RANKED = 180 /* over the square of D: paths of a table that are tried */, HG_CHANGES = 2000 };
static const double HG_LEAST_GAP = 1e-6, HG_FLOAT_ERROR = 1e-12, HG_EARLY = 8;
/* Time in which a byte leaves an NPU, for which a stage holds the dimension besides, and from then to its result. */
typedef struct { int npus; double byte_time, fixed, lag; } hg_dimension;
typedef struct {
    double share, part, ready; /* of the data; bytes and time after the last stage in the orders */
    long long size;            /* bytes, in the result of hourglass_plan */
    int path[HG_LENGTH];       /* dimensions in the order of the scatters, then of the gathers */
} hg_chunk;
typedef struct {
    int num_chunks, is_solid, num_stages[HG_DIMENSIONS]; /* is_solid: whether all dimensions are always busy */
    double time, free_at[HG_DIMENSIONS];
    hg_chunk chunks[HG_CHUNKS];
    short stages[HG_DIMENSIONS][2 * HG_CHUNKS]; /* 2 * chunk + phase; phase 0 scatters, 1 gathers */
} hg_block;
typedef struct { hg_block best, other; } hg_workspace;
typedef struct { const hg_dimension *network; int width, phases; double size; } hg_problem; /* width: dimensions */
typedef struct { /* mirrored chunks that keep every dimension busy from 0 to 1 */
    int width, count, tried, most, num_served, served[HG_FEW * HG_LENGTH];
    int paths[HG_FEW][HG_LENGTH], next[HG_FEW], mirror[HG_FEW];
    double durations[HG_FEW][HG_LENGTH], free_at[HG_DIMENSIONS], ready[HG_FEW], reached, early;
} hg_half;
/* Paths of 2 D - 1 chunks of 3 and 4 dimensions, and 2 D weights, as in chunk_law.py; the orders of their letters. */
static const char *const hg_paths[] = {
    "eeaebacABebedcebdAeABbcfdabEdcBcaaedaaesDEiAedaefPEdfDbafdffmkFbfBcfadfgnFBhacfecbDEDiBabdfbcNKlECcafcffjtHHjcaebcarcDccBfbafcOdkLfaeddbbQSdhHcbfaccdfGg"
    "dAdebdeCHecHdfeafdIrcIjBaeccbBbBAfbbaaeanfCBeAcbecbabABBabfcdelAEfcAafdccNEgIddceafeDvCKjbecabalCBhKcceefbaobIhabfcfemhMffabcbefGMgfGAafddflbDedCfaaeaQh"
    "fEdacacfaJsdMiaddbcfPYhkNAbebdemIDiEadabddOKnDHbafaccnhFBecffaedUBfLkafabddOTmcKabfbcdjMElIadaafdGgiECabccfbsADfBBcfecambAcEbaacfbmoaFdBbdccalIGiBaaebcd"
    "LKeaabfcbddJWiiPbaefebFfeHhabcbfcfEJjAaabefbpaEebBaeecbDEDiBaefcfbpgCccBadaefgnFBhaddefaodFebAdbbffCadDaabdfadOTmcKaafdefMniLcbbabddiFadCAcfbdehCJiAa",
    "bdafcdfljFBgaedecafcCdGhCdafbdefdhOIhdAdacabdeLYlbMbaeafacdJmAFgdbceeaebeAeAaAceafbdesaBBAbfedeaffKbiKcccdaffebDFIehAdaecddaIHhcEaecbfafcpjAbABcbcfaffKr"
    "hOgabfafedchjMhfBedbdfadDAddGafbfabeaQakIAcbeafefcbpEAhAedecdfamGCkEBadcfacayGAcFCeddbecaIUdjJbdecfafeJpcIjA",
    "gvelottdPmacBhaspotgxcEgoBIcmahgouaqeDCGCBffdrakqovbTFFqHCCeluwmhpdNUZhfgHcouaakqaKimiEdbBwkiuaxkADoafOlbknmomxaahEEElCebuwhfxhqFKGsCBBcuveiwfJPxfbToakq"
    "fkexxjoGBbmHAekbriwxbsGHEndAcxthowhQJAfAHkcewvgekpVXPqiFIafxboougnlqPgCjahrumcuqReKadmLdcjcuiwvkfzbBUoahoawbvmvuhMGkiAthosawdKPlakRkaasgwsoaEyzAObjacsiw"
    "vbbZIkrLHkBwhauawbsaCJoLiAepomowgMsDfWmechmcwqkecECbcfEbavdhhqtoEHQodeAmugxuqebzjaMeiAleanwidGTRileWcotiqcxtGtzeOHlarfuwbltWUPqHjIbsrquitbpddbmFDBfkiwer"
    "tzcQMlnHCcwgsspctlrFEciAotqibqdBIKhkJGetiixmtdhKoHjMkcevsriwplzhBGkBBhxrfuoaMkJlOpEBknskfxmeCUIioMdrciugldYXEqjVdaougxupiQrpgNEnahxouertxnaUhdiAgwdxmlxi"
    "fwHADjauxgwmvbivuHFbiArobnpfbEbZmFpUahlqsfivSTZkoAWcbamuajgtapFjNlBaugxsqdzskNCfjAlwolrmdEEbnHaEaftckissLTpjkTgBbwuodxmysBSdnAadkbntmrHRZFufSclmiwcudbAo"
    "lCNhaeqgsrvuQiGkKjaBmwbmergazAFNqAAwibnmvpCLFEqICdgtcxsspEjzdKNobasgwimdcerANdhacwtlgsdtGqIfJnAbweogscdxiDLjiCrmdklddWZXwjKMamteokrarnGaAiGAuroufxgvoyIA"
    "HmAfxnkknsvDTGqkXahmaxasjozyPQflcqgawcxmsclDkNfacuumawpPhweEJlbxamtkcbZZCyIMabawavhonzmmMbfiDkwredicfDFkfdNabpmvungchMGGtEbcocxmqhrvlJAfcabwqgajmnNFFsHa"
    "acuowlgbIMfiJKocsrermugztDNghaBixqkxceUZMhtKIbepowpmlZCXqZrGbsqargxmoxbLGoBagucxwklDMuamUkakqdhfxswnUKhsQBwqgxoueigqCCHjdkwxbpxaNedsLcEakltlsnoaLQCoiSca"
    "xnjhqxrCCGEifBqiatbubxEdLoMjAbmpkawjUhfiZjlAkidgenpTZZhpgVAnlumhpgAsRdMuMapaaxmwkWagqPGlAlddurmcUZQtlOHaqlkrudsGGZBhvZbmvixlcoVNxlFSnaeqguqicjOSLqiIbixh"
    "csprZDDoSmCagsbogxdhunFLhhaaiouergysnKfBgAwjogawnFUhBvSBbrccxiwnGgvkILiadghmgsbKockUjbAxpunhkfRQZmemXackdgerhzPuVmNjcfgxeatnXZbolZeagwmubmbBzbGNkkAnndgv"
    "neJZZqkAUaajkqmvtmfCNhjcAaqnicxmlBjOjEjAqgekawevNPFvJEahxtodxmzpaOhjGacqmtchsGLvCmWnBvdctupmZKEvFEIcexnlkmlFfQdapUbmwhpcsvLloeJbgbahhrwhshdUJqjScjsxagxd"
    "SQspJJhbfxmwigncYAGsTlawjgshqdGngiObhAbmmwandazDDGkAAgvotspcfFqBKFqbwimxfrhzbFUmiABnrgxhoczxCKDlaAsnpbjfaUGKwOiTcdiexmtlvGfDhBAAisbnspbQgIaStBcgthocxnfw"
    "sEACkCktiuxcbZGdzUJeacisrmwbzbGQcjdaqkeierhyHVIsdPbdghmhbeTPZlErQasqakgvbksbOefdAmffjuqwBWKnkLHaeuawumnFhFIdlBbguovllxZLvlASlBhxauhicifdICcga",
    "rdemiwavoNbcrZdhakomxmxkrfygJJcjdBqlouittjceRyBrYjBrpbmkiffoLFDgajJAnmcqfkfntcKQNwbNcldqethcdcLSIshUDatpesladqoODjieGKciuatqohxbecADdClatherkmfqmcERIjoS"
    "dtsshckkraxAWKtGAalqixouxebVGzlUErBfrawaultwDuzDADkBvmrnwlbqrYAMoHiPckoerngfkhdJLJniJcoueokmgxjZtfhOifAfgsrfuowarViOnEhcawcubmuuhHddJQkpccnnkkpqcfhLHapI"
    "IdwdupwkmpiVUKklbSBmpixtvgtrDGsCgSsAowtgevmvhlmzDbLmcuncugxnlezAJIafhAtruokqnvazoCKbpCCwivuatollVXtkhZmBpdxbsebnbGOUrHeObsmkncwfrmBwnLaqFbenpeicxoaLMBvL"
    "aOcupwigqavnofCAfCBaobatkqcxvByBhLefBcbgubqunebwjBDjBbaktkexspgzoOTlkaCwmgbfllqmHMjiBACebnuqrnqidCaKcDsWbitdotuaxmtEoNlUrcemsqglevqzsGKanDBitbxouutfGizC"
    "LLvcowausthjeevfCFEmApgovvtmneEKbnDMearjwoxdetmTQPmlIRcvnsehxsprSFLkQsPamxuokqauavzzKIjjAaxjaxbkqoZONuUAhanvoilextfOZHjnXiBomglcwspdxqGKClaaufgsvrhvmNkI"
    "jVcoAmgrdnllvsKWIetNGaovaksobxhztcLjAgCkiqoajhrqwELLnmRAjxiqsoosbKzrENlfbvbmtcuhrvOabkDGgcrgundikrqRQZfkjSBlwhrmvaptzbBJcckDeusmowgreosdGMnga"};
static const char *const hg_orders[] = {"012021102120201210",
    "012301320213023103120321102310321203123013021320201320312103213023012310301230213102312032013210"};
/* Time for which a part of the data holds a dimension. */
static double hg_held(const hg_dimension *d, double b) { return b * d->byte_time * (d->npus - 1) / d->npus + d->fixed; }
/* Add a chunk, whose path the caller fills. */
static int *hg_add(const hg_problem *p, hg_block *b, double share) {
    hg_chunk *c = &b->chunks[b->num_chunks++];
    c->share = share, c->part = share * p->size;
    return c->path;
}
/* Append a stage of a chunk to the orders, and time it. */
static void hg_push(const hg_problem *p, hg_block *b, int chunk, int position) {
    hg_chunk *c = &b->chunks[chunk];
    int k = c->path[position], is_gather = position >= p->width;
    const hg_dimension *d = &p->network[k];
    if (is_gather) c->part *= d->npus;
    b->free_at[k] = fmax(c->ready, b->free_at[k]) + hg_held(d, c->part);
    if (!is_gather) c->part /= d->npus;
    c->ready = b->free_at[k] + d->lag;
    b->time = fmax(b->time, c->ready);
    b->stages[k][b->num_stages[k]++] = (short)(2 * chunk + is_gather);
}
/* Sizes of chunks, of which the first is 1, and whether they gather in the reverse order of their scatters. */
static double hg_growing_sizes(int count, double shrunk, int phases, double *sizes, int *is_nested) {
    double growth = fmax(1, 2 * shrunk), both = 0, nested = 0;
    for (int j = 0; j < count; j++) {
        sizes[j] = pow(growth, j < count - 1 - j ? j : count - 1 - j);
        both += sizes[j], nested += pow(shrunk, j);
    }
    *is_nested = phases == 2 && shrunk >= 1 && nested > both;
    if (phases == 2 && !*is_nested) return both;
    for (int j = 0; j < count; j++) sizes[j] = pow(shrunk, j);
    return nested;
}
/* The block of two dimensions (theorems 2 and 5): chunk 0 visits `other` first, if it has a share. */
static void hg_pair(const hg_problem *p, hg_block *b, int most_chunks) {
    const hg_dimension *d = p->network;
    double sizes[HG_CHUNKS], sum, share, a = hg_held(d, 1) - d->fixed, between = (hg_held(d + 1, 1) - d[1].fixed) / a;
    int other = between * between * d[1].npus >= d[0].npus, first = !other, count = 0, is_nested, ends = p->phases == 2;
    double npus = d[first].npus, ratio = other ? between : 1 / between, shrunk = ratio / npus;
    double balanced = (1 - shrunk) / (1 - shrunk + ratio - 1.0 / d[other].npus);
    for (;; count++) {
        sum = hg_growing_sizes(count, shrunk, p->phases, sizes, &is_nested), share = 1 / (1 + ratio * sum);
        b->is_solid = shrunk < 1 && share <= balanced * (1 + HG_FLOAT_ERROR);
        if (b->is_solid || count == most_chunks - 1 || ratio * sum >= npus / HG_LEAST_GAP) break;
    }
    if (shrunk < 1) share = fmax(share, balanced);
    else if (ratio * share * (1 - 1 / npus) > 1 / hg_growing_sizes(count + 1, shrunk, p->phases, sizes, &is_nested))
        share = 0;
    int base = share > 0, n = count + 1;
    sum = hg_growing_sizes(n - base, shrunk, p->phases, sizes, &is_nested);
    for (int i = 0; i < n; i++) {
        int *path = hg_add(p, b, i < base ? share : sizes[i - base] * (1 - share) / sum);
        path[0] = path[3] = i < base ? other : first, path[1] = path[2] = i < base ? first : other;
    }
    for (int i = 0; i < n; i++) hg_push(p, b, i, 0);
    for (int i = 0; i < n; i++)
        if (hg_push(p, b, i, 1), ends && !(is_nested && i >= base)) hg_push(p, b, i, 2);
    for (int i = n - 1; is_nested && i >= base; i--) hg_push(p, b, i, 2);
    for (int i = base; ends && i < n; i++) hg_push(p, b, is_nested ? n - 1 - i + base : i, 3);
    if (ends && base) hg_push(p, b, 0, 3);
}
/* Whether the stages that are served can be continued until 1 without a pause. Early dead ends may end the trial. */
static int hg_is_full(hg_half *h) {
    int k = 0, last = 2 * h->width - 1;
    double time = h->free_at[0];
    if (++h->tried > h->most) return 0;
    for (int other = 1; other < h->width; other++) time = fmin(time, h->free_at[other]);
    while (h->free_at[k] > time + HG_FLOAT_ERROR) k++;
    time = h->free_at[k], h->reached = fmax(h->reached, time);
    if (time >= 1 - HG_FLOAT_ERROR) return 1;
    for (unsigned seen = 0;;) { /* the longest stage first */
        double longest = 0;
        int i = -1;
        for (int j = 0; j < h->count; j++) {
            if (seen >> j & 1 || h->paths[j][h->next[j]] != k || h->ready[j] > time + HG_FLOAT_ERROR) continue;
            if (h->next[h->mirror[j]] > last - h->next[j] || h->durations[j][h->next[j]] <= longest) continue;
            i = j, longest = h->durations[j][h->next[j]];
        }
        if (i < 0 && !seen && h->reached < 1 - h->early / (h->width * h->tried)) h->tried = h->most;
        if (i < 0) return 0;
        double ready = h->ready[i], end = time + longest;
        seen |= 1u << i, h->free_at[k] = h->ready[i] = end, h->next[i]++, h->served[h->num_served++] = i;
        if (hg_is_full(h)) return 1;
        h->free_at[k] = time, h->ready[i] = ready, h->next[i]--, h->num_served--;
    }
}
/* Positive numbers whose products with the columns sum to 1 in every row, by elimination; 0 if there are none. */
static int hg_equal_loads(int count, double rows[][HG_DIMENSIONS], double *sizes) {
    double r[HG_DIMENSIONS];
    for (int i = 0; i < count; i++) {
        int pivot = i;
        for (int k = i + 1; k < count; k++) if (fabs(rows[k][i]) > fabs(rows[pivot][i])) pivot = k;
        memcpy(r, rows[pivot], sizeof r), memmove(rows[i + 1], rows[i], sizeof r * (size_t)(pivot - i));
        memcpy(rows[i], r, sizeof r);
        if (r[i] == 0) return 0;
        for (int k = i + 1; k < count; k++)
            for (int j = count; j > i; j--) rows[k][j] -= rows[k][i] / r[i] * r[j];
    }
    for (int i = count - 1; i >= 0; i--) {
        double sum = 0;
        for (int j = i + 1; j < count; j++) sum += rows[i][j] * sizes[j];
        if ((sizes[i] = (rows[i][count] - sum) / rows[i][i]) <= 0) return 0;
    }
    return 1;
}
/* How far mirrored chunks fill half of the time, -1 if no sizes suit; adds them if they fill it. Letters: scatters and
 * gathers of each pair, scatters of the last chunk. `more` pairs beyond D - 1 come first, with the size of the next. */
static double hg_fill(const hg_problem *p, hg_block *b, const double *times, const int *dims, const char *text, int more, int spare) {
    int width = p->width, count = 2 * (width + more) - 1, last = 2 * width - 1;
    double loads[HG_FEW + 1][HG_DIMENSIONS], rows[HG_DIMENSIONS][HG_DIMENSIONS] = {{0}}, sizes[HG_DIMENSIONS], whole = 0;
    const char *orders[HG_FEW + 1];
    hg_half h = {.width = width, .count = count, .most = 4 * width * count, .early = spare ? HG_EARLY : HUGE_VAL};
    for (int i = 0; i <= count; i++) { /* orders of scatters as if in turn forwards and backwards */
        double part = 1;
        orders[i] = hg_orders[width - 3] + width * (text[i < count ? i : count - 1] - 'a');
        for (int j = 0; j < width; j++) {
            int k = orders[i][i % 2 && i < count ? width - 1 - j : j] - '0';
            loads[i][k] = times[k] * part, part /= p->network[dims[k]].npus;
        }
    }
    for (int k = 0; k < width; rows[k++][width] = 1)
        for (int i = 0; i < count; i += 2)
            rows[k][i / 2 < more ? 0 : i / 2 - more] += i < count - 1 ? loads[i][k] + loads[i + 1][k] : loads[i][k];
    if (!hg_equal_loads(width, rows, sizes)) return -1;
    for (int i = width - 1 + more; i > 0; i--) sizes[i] = sizes[i < more ? 0 : i - more];
    for (int i = 0; i < count; h.mirror[i] = i == count - 1 ? i : i ^ 1, i++)
        for (int j = 0; j <= last; j++) {
            int place = i % 2 ? last - j : j, from = i - i % 2 + place / width;
            h.paths[i][j] = orders[from][from == count ? last - place : place % width] - '0';
            h.durations[i][j] = sizes[i / 2] * loads[from][h.paths[i][j]];
        }
    if (!hg_is_full(&h)) return h.reached;
    for (int i = 0; i < count; i += 2) whole += i < count - 1 ? sizes[i / 2] + sizes[i / 2] : sizes[i / 2];
    for (int i = 0; i < count; i++) {
        int *path = hg_add(p, b, sizes[i / 2] / whole);
        for (int j = 0; j <= last; j++) path[j] = dims[h.paths[i][j]];
    }
    memset(h.next, 0, sizeof h.next);
    for (int j = 0, i; j < h.num_served; j++) i = h.served[j], hg_push(p, b, i, h.next[i]++);
    for (int j = h.num_served, i; j-- > 0;) i = h.served[j], hg_push(p, b, h.mirror[i], last - --h.next[i]);
    return b->is_solid = 1;
}
/* A random number below `most`. */
static int hg_draw(unsigned *s, int most) { return (int)((*s = (*s * 1103515245u + 12345u) & 0x7fffffffu) / 256) % most; }
/* The block of an all-reduce that is the same backwards: paths of the tables, or random changes of one more pair. */
static void hg_mirrored(const hg_problem *p, hg_block *b, int most_chunks) {
    int dimensions[HG_DIMENSIONS], width = p->width, count = 2 * width - 1, orders = width == 3 ? 6 : 24, spare;
    double times[HG_DIMENSIONS], logs[HG_LENGTH], least = HUGE_VAL, filled = -2;
    char now[HG_FEW], tried[HG_FEW];
    for (int k = 0, j; k < width; k++) { /* from fast to slow */
        double time = hg_held(&p->network[k], 1) - p->network[k].fixed;
        for (j = k; j > 0 && times[j - 1] > time; j--) times[j] = times[j - 1], dimensions[j] = dimensions[j - 1];
        times[j] = time, dimensions[j] = k, least = fmin(least, time * p->network[k].npus);
    }
    for (int k = 0; k < width; k++) logs[width - 1 + k] = log2(p->network[dimensions[k]].npus);
    for (int k = 1; k < width; k++) logs[k - 1] = log2(times[k] / times[k - 1]);
    logs[2 * width - 1] = 4, spare = 2 * times[width - 1] <= least;
    for (int more = 0;; more++, count += 2, filled = -2) {
        const char *letters = hg_paths[2 * (width - 3) + more];
        int length = count + 2 * width, num_entries = (int)strlen(letters) / length;
        double scores[HG_ENTRIES] = {0};
        for (int place = 0, c; place < length * num_entries; place++)
            if (c = letters[place], place % length >= count)
                scores[place / length] += (c >= 'a' ? c - 'a' : '@' - c) * logs[place % length - count];
        for (int rank = 0; rank < (spare ? HG_RANKED / (width * width) : num_entries) && rank < num_entries; rank++) {
            int entry = 0;
            for (int e = 1; e < num_entries; e++) if (scores[e] > scores[entry]) entry = e;
            double reached = hg_fill(p, b, times, dimensions, letters + length * entry, more, spare);
            if (b->is_solid) return;
            if (reached > filled) filled = reached, memcpy(now, letters + length * entry, (size_t)count);
            scores[entry] = -HUGE_VAL;
        }
        if (most_chunks <= 2 * width || (more && !spare)) return;
        if (more) break;
    }
    for (unsigned state = 1, change = 0; change < HG_CHANGES && !b->is_solid; change++) {
        memcpy(tried, now, sizeof now);
        for (int drawn, goes_on = 1; goes_on; goes_on = hg_draw(&state, 3) == 0)
            drawn = hg_draw(&state, count * orders), tried[drawn % count] = (char)('a' + drawn / count);
        double reached = hg_fill(p, b, times, dimensions, tried, 1, 1);
        if (reached >= filled - 0.02 * hg_draw(&state, 1024) / 1024) filled = reached, memcpy(now, tried, sizeof now);
    }
}
/* Equal chunks, each of which visits the dimensions from the least to the most loaded one, and gathers backwards.
 * What can begin first is served first, and the middle of a chunk before first scatters and last gathers. */
static void hg_equal(const hg_problem *p, hg_block *b, int count) {
    double loads[HG_DIMENSIONS] = {0};
    int next[HG_FEW] = {0}, last = p->width * p->phases - 1;
    memset(b, 0, sizeof *b);
    for (int i = 0; i < count; i++) {
        int *path = hg_add(p, b, 1.0 / count);
        double part = b->chunks[i].part;
        for (int k = 0, j; k < p->width; path[j] = k, k++)
            for (j = k; j > 0 && loads[path[j - 1]] > loads[k]; j--) path[j] = path[j - 1];
        for (int j = 0; j < p->width; j++) {
            loads[path[j]] += hg_held(&p->network[path[j]], part), part /= p->network[path[j]].npus;
            if (p->phases == 2) path[last - j] = path[j];
        }
    }
    for (int j = 0; j < count * (last + 1); j++) {
        double least = HUGE_VAL;
        int chosen = 0, best = 2;
        for (int i = 0; i < count; i++) {
            if (next[i] > last) continue;
            double begin = fmax(b->chunks[i].ready, b->free_at[b->chunks[i].path[next[i]]]);
            int rank = next[i] == 0 || (next[i] == last && p->phases == 2);
            if (begin < least || (begin == least && rank < best)) least = begin, chosen = i, best = rank;
        }
        hg_push(p, b, chosen, next[chosen]++);
    }
}
/* Fill w->best for phases = 2, an all-reduce, or 1, a reduce-scatter (backwards: an all-gather); returns its time. */
static double hourglass_plan(hg_workspace *w, const hg_dimension *network, int num_dimensions, int phases, long long size,
                             long long unit, int most_chunks) {
    const hg_problem p = {network, num_dimensions, phases, (double)size};
    hg_block *b = &w->best;
    double total = 0, rest[HG_CHUNKS];
    long long missing = size / unit;
    int has_costs = 0, most = most_chunks < HG_CHUNKS ? most_chunks : HG_CHUNKS;
    memset(w, 0, sizeof *w);
    for (int k = 0; k < num_dimensions; k++) has_costs |= network[k].fixed > 0 || network[k].lag > 0;
    if (num_dimensions == 2) hg_pair(&p, b, most);
    else if (num_dimensions < HG_DIMENSIONS && phases == 2 && most >= 2 * num_dimensions - 1) hg_mirrored(&p, b, most);
    int is_enough = !has_costs && most > 1 && (b->is_solid || num_dimensions == 2);
    for (int count = 1; count <= most && count < HG_FEW && !is_enough; count++) {
        hg_equal(&p, &w->other, count);
        if (!b->num_chunks || w->other.time < b->time) *b = w->other;
    }
    for (int i = 0; i < b->num_chunks; i++) total += b->chunks[i].share;
    for (int i = 0; i < b->num_chunks; i++) {
        double exact = b->chunks[i].share / total * (double)(size / unit);
        b->chunks[i].size = unit * (long long)floor(exact);
        rest[i] = floor(exact) - exact, missing -= (long long)floor(exact);
    }
    for (int next = 0; missing > 0; missing--, next = 0) { /* largest remainders first */
        for (int i = 1; i < b->num_chunks; i++) if (rest[i] < rest[next]) next = i;
        b->chunks[next].size += unit, rest[next] = HUGE_VAL;
    }
    return b->time;
}
#endif
