/* Mirrored chunks that keep every dimension of a network busy (docs/law.md, theorem 3), by a hill climb over paths.
 * Reads networks, "D NPUs time NPUs time ...", of a byte on each dimension from fast to slow, and writes the scatters and
 * gathers of the first chunk of each pair, and the scatters of the last chunk, as one digit for each dimension; "-" if
 * there are none. Arguments: pairs more than D - 1, whose sizes are that of the first one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define MOST 11 /* chunks */
#define ERROR 1e-12
enum { RESTARTS = 60, CHANGES = 20000 };
typedef struct {
    int orders[MOST][5]; /* of the scatters and gathers of pairs, and of the last scatters */
} paths_of_chunks;
static int width, count, tied, npus[5];
static double times[5];
static int paths[MOST][10], places[MOST], mirror[MOST], tries;
static double durations[MOST][10], free_at[5], ready[MOST], reached;
static unsigned long long state = 88172645463325252ULL;

static int draw(int most) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (int)((state >> 20) % (unsigned)most);
}

/* Whether the stages that are served can be continued until 1 without a pause, the longest stage first. */
static int is_full(void) {
    int k = 0, last = 2 * width - 1;
    if (--tries < 0) return 0;
    for (int other = 1; other < width; other++) if (free_at[other] < free_at[k] - ERROR) k = other;
    double time = free_at[k];
    reached = fmax(reached, time);
    if (time >= 1 - ERROR) return 1;
    for (unsigned seen = 0;;) {
        double longest = 0;
        int i = -1;
        for (int j = 0; j < count; j++) {
            double duration = durations[j][places[j]];
            if (seen >> j & 1 || paths[j][places[j]] != k || ready[j] > time + ERROR) continue;
            if (places[mirror[j]] > last - places[j] || time + duration > 1 + ERROR) continue;
            if (duration > longest) i = j, longest = duration;
        }
        if (i < 0) return 0;
        double before = ready[i];
        seen |= 1u << i;
        free_at[k] = ready[i] = time + longest, places[i]++;
        if (is_full()) return 1;
        free_at[k] = time, ready[i] = before, places[i]--;
    }
}

/* Positive numbers whose products with the columns sum to 1 in every row, by elimination; 0 if there are none. */
static int equal_loads(double rows[][6], double *sizes) {
    for (int i = 0; i < width; i++) {
        int pivot = i;
        for (int k = i + 1; k < width; k++) if (fabs(rows[k][i]) > fabs(rows[pivot][i])) pivot = k;
        for (int j = 0; j <= width; j++) {
            double moved = rows[i][j];
            rows[i][j] = rows[pivot][j], rows[pivot][j] = moved;
        }
        if (rows[i][i] == 0) return 0;
        for (int k = 0; k < width; k++) {
            double factor = rows[k][i] / rows[i][i];
            for (int j = i; k != i && j <= width; j++) rows[k][j] -= factor * rows[i][j];
        }
    }
    for (int i = 0; i < width; i++) if ((sizes[i] = rows[i][width] / rows[i][i]) <= 0) return 0;
    return 1;
}

/* How far the first half of the time is filled: 2 if entirely. */
static double fill(const paths_of_chunks *p) {
    double loads[MOST][5], rows[5][6] = {{0}}, sizes[5];
    for (int i = 0; i < count; i++) {
        double part = 1;
        for (int j = 0; j < width; j++) { /* gathers backwards are scatters */
            int k = p->orders[i][i % 2 ? width - 1 - j : j];
            loads[i][k] = times[k] * part, part /= npus[k];
        }
    }
    for (int k = 0; k < width; k++) {
        for (int i = 0; i < count; i++) rows[k][i / 2 <= tied ? 0 : i / 2 - tied] += loads[i][k];
        rows[k][width] = 1;
    }
    if (!equal_loads(rows, sizes)) return -1;
    for (int i = 0; i < count; i++) {
        double size = sizes[i / 2 <= tied ? 0 : i / 2 - tied];
        for (int j = 0; j < 2 * width; j++) {
            int place = i % 2 ? 2 * width - 1 - j : j, from = i - i % 2 + place / width;
            paths[i][j] = from == count ? p->orders[count - 1][2 * width - 1 - place] : p->orders[from][place % width];
            durations[i][j] = size * loads[from == count ? count - 1 : from][paths[i][j]];
        }
        mirror[i] = i == count - 1 ? i : i ^ 1, places[i] = 0, ready[i] = 0;
    }
    memset(free_at, 0, sizeof free_at);
    tries = 40 * width - 60, reached = 0;
    return is_full() ? 2 : reached;
}

static void shuffle(int *order) {
    for (int j = 0; j < width; j++) {
        int other = draw(j + 1);
        order[j] = order[other], order[other] = j;
    }
}

/* Change random orders as long as that fills no less, or a little less at first. */
static int climb(paths_of_chunks *p) {
    for (int restart = 0; restart < RESTARTS; restart++) {
        for (int i = 0; i < count; i++) shuffle(p->orders[i]);
        double best = fill(p);
        for (int change = 0; change < CHANGES && best < 2; change++) {
            paths_of_chunks other = *p;
            do shuffle(other.orders[draw(count)]); while (draw(3) == 0);
            double filled = fill(&other);
            if (filled >= best - 0.02 * (1 - (double)change / CHANGES) * draw(1000) / 1000) best = filled, *p = other;
        }
        if (best == 2) return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    tied = argc > 1 ? atoi(argv[1]) : 0;
    while (scanf("%d", &width) == 1) {
        paths_of_chunks p;
        count = 2 * width - 1 + 2 * tied;
        for (int k = 0; k < width; k++) {
            if (scanf("%d %lf", &npus[k], &times[k]) != 2) return 1;
            times[k] *= 1 - 1.0 / npus[k];
        }
        int is_climbed = climb(&p);
        for (int i = 0; is_climbed && i < count; i++)
            for (int j = 0; j < width; j++) putchar('0' + p.orders[i][j]);
        puts(is_climbed ? "" : "-");
    }
    return 0;
}
