// SPDX-License-Identifier: Apache-2.0
// One rank of a test that runs as an MPI job. Ends with 0 only if every case passed here; the launcher adds up.

#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#include <cstdio>

#include "support/mpi.hpp"

namespace {
causeway::net::mpi_world* entered = nullptr;
}

causeway::net::mpi_world& support::job() { return *entered; }

int main(int argc, char** argv) {
  auto world = causeway::net::mpi_world::enter({.patience = std::chrono::seconds{60}});
  if (!world) {
    std::fprintf(stderr, "%s\n", world.error().text().c_str());
    return 1;
  }
  entered = &*world;
  const int failed = Catch::Session().run(argc, argv);
  if (failed != 0) return failed;  // without leaving: the launcher ends the others
  const auto left = world->leave();
  if (!left) std::fprintf(stderr, "%s\n", left.error().text().c_str());
  return left ? 0 : 1;
}
