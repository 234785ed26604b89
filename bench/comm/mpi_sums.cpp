// SPDX-License-Identifier: Apache-2.0
// Sums among the ranks of an MPI job: MPI's own loop over MPI_Allreduce, ours as collective::mpi_site makes them, and each
// way on its own, taking turns, 1 KiB to 64 MiB. Prints a table.
//
//   mpirun -n 4 bench_comm_mpi_sums [ROUNDS]

#include <causeway/collective/mpi_site.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/net/mpi_library.hpp>
#include <causeway/net/mpi_world.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

namespace {

using namespace causeway;
using collective::mpi_way;

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "mpi_sums: %s\n", why.c_str());
  std::exit(2);
}

void need(const result<void>& outcome) {
  if (!outcome) give_up(outcome.error().text());
}

double once(std::vector<float>& x, const net::mpi_world& world, auto&& sum) {
  std::fill(x.begin(), x.end(), static_cast<float>(world.rank() + 1));
  MPI_Barrier(world.line()->handle);
  const steady_clock clock;
  const time_point begin = clock.now();
  sum();
  const double took = seconds(clock.now() - begin);
  const auto n = static_cast<float>(world.size());
  if (x.front() != n * (n + 1) / 2 || x.back() != x.front()) give_up("wrong sum");
  return took;
}

struct contender {
  std::vector<double> times{};
  double least() { return *std::min_element(times.begin(), times.end()); }
  double median() {
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }
};

/// A size, all contenders in turns.
void measure(const net::mpi_world& world, collective::mpi_site& chosen, collective::mpi_site& fixed, std::size_t bytes,
             int rounds) {
  std::vector<float> x(bytes / sizeof(float));
  std::vector<contender> all(2 + std::size(collective::mpi_ways));  // MPI's loop, ours, and each way
  for (int i = -1; i < rounds; ++i) {
    for (std::size_t c = 0; c < all.size(); ++c) {
      if (c >= 2) fixed.always(collective::mpi_ways[c - 2]);
      const double took = once(x, world, [&] {
        if (c == 0) {
          MPI_Allreduce(MPI_IN_PLACE, x.data(), static_cast<int>(x.size()), MPI_FLOAT, MPI_SUM, world.line()->handle);
        } else {
          need((c == 1 ? chosen : fixed).sum(x));
        }
      });
      if (i >= 0) all[c].times.push_back(took);
    }
  }
  if (world.rank() != 0) return;
  std::printf("%9zu", bytes / 1024);
  for (contender& c : all) std::printf("  %9.1f %9.1f", 1e6 * c.least(), 1e6 * c.median());
  std::printf("  %-10s %5.2f %5.2f\n", to_string(chosen.way_of(bytes)).c_str(), all[1].least() / all[0].least(),
              all[1].median() / all[0].median());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const auto world = net::mpi_world::enter();
  if (!world) give_up(world.error().text());
  constexpr std::size_t largest = std::size_t{64} << 20U;
  auto chosen = collective::mpi_site::open(*world, {.measure_up_to = largest});
  auto fixed = collective::mpi_site::open(*world);
  if (!chosen || !fixed) give_up((chosen ? fixed : chosen).error().text());
  if (world->rank() == 0) {
    std::printf("%s, %u ranks; microseconds, least and median\n      KiB  %19s  %19s", net::mpi_world::library().c_str(),
                world->size(), "MPI_Allreduce", "ours");
    for (const mpi_way way : collective::mpi_ways) std::printf("  %19s", to_string(way).c_str());
    std::printf("  chosen     ours / MPI's\n");
  }
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 20;
  for (std::size_t bytes = 1024; bytes <= largest; bytes *= 4) {
    measure(*world, **chosen, **fixed, bytes, bytes < (1U << 20U) ? 10 * rounds : rounds);
  }
  chosen->reset();
  fixed->reset();
  need(world->leave());
  return 0;
}
