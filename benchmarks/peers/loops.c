/* The derivatives F and J of closed_form.py, for DIMENSION coordinates that each lie together in memory.

   A point i and the points j of a block before it give to each other in one loop, which the compiler vectorises. */

#include <math.h>

enum { d = DIMENSION, BLOCK = 512 };

void fields(int n, const double *restrict x, const double *restrict b, const double *restrict m, double *restrict F,
            double *restrict J) {
  for (int start = 0; start < n; start += BLOCK)
    for (int i = start + 1; i < n; i++) {
      int stop = start + BLOCK < i ? start + BLOCK : i;
      double x_i[d], b_i[d], F_i[d], m_i = m[i], J_i = 0;
      for (int c = 0; c < d; c++) x_i[c] = x[c * n + i], b_i[c] = b[c * n + i], F_i[c] = 0;
#pragma GCC ivdep
      for (int j = start; j < stop; j++) {
        double v = 1, to_i = 0, to_j = 0, D[d];
#pragma GCC unroll 64
        for (int c = 0; c < d; c++) {
          D[c] = x_i[c] - x[c * n + j];
          v += D[c] * D[c];
          to_i -= D[c] * b[c * n + j];
          to_j += D[c] * b_i[c];
        }
        double inverse = 1 / v, root = sqrt(inverse), cube = root * inverse, both = cube * (d - 3 + 3 * inverse);
        J_i += cube * to_i + both * m[j];
        J[j] += cube * to_j + both * m_i;
#pragma GCC unroll 64
        for (int c = 0; c < d; c++) {
          double push = cube * D[c];
          F_i[c] += root * b[c * n + j] + push * m[j];
          F[c * n + j] += root * b_i[c] - push * m_i;
        }
      }
      J[i] += J_i;
      for (int c = 0; c < d; c++) F[c * n + i] += F_i[c];
    }
}
