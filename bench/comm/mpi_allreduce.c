/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of an all-reduce through MPI. Started by compare.py. Usage: mpi_allreduce MIB REPEATS WARM
   Rank 0 prints one line "seconds t t t ...". Build: mpicc.openmpi -O2 mpi_allreduce.c -o mpi_allreduce */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int peers, rank;
  MPI_Comm_size(MPI_COMM_WORLD, &peers);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const size_t count = (size_t)(atof(argv[1]) * 262144);
  const int repeats = atoi(argv[2]), warm = atoi(argv[3]);
  float* x = malloc(count * sizeof *x);
  double* times = malloc((size_t)(repeats + warm) * sizeof *times);
  const float expected = (float)(peers * (peers + 1)) / 2;
  for (int i = 0; i < repeats + warm; ++i) {
    for (size_t j = 0; j < count; ++j) x[j] = (float)(rank + 1);
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE, x, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    times[i] = MPI_Wtime() - start;
    if (x[0] != expected || x[count - 1] != expected) {
      fputs("wrong result\n", stderr);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  if (rank == 0) {
    printf("seconds");
    for (int i = warm; i < repeats + warm; ++i) printf(" %.6f", times[i]);
    printf("\n");
  }
  MPI_Finalize();
  return 0;
}
