// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/mpi_world.hpp>

#include <set>

#include "support/mpi.hpp"

using namespace causeway;
using namespace causeway::net;
using support::job;

TEST_CASE("mpi world: knows its ranks, its hosts and the implementation", "[net]") {
  CHECK(job().rank() < job().size());
  CHECK(job().size() >= 2);
  const auto hosts = job().hosts();
  REQUIRE(hosts);
  CHECK(hosts->size() == job().size());
  CHECK(std::set(hosts->begin(), hosts->end()).size() == 1);  // tests run on one machine
  CHECK_FALSE(hosts->front().empty());
  const std::string name = mpi_world::library();
  CHECK((name.starts_with("Open MPI ") || name.starts_with("MPICH ")));
  CHECK(name.find_first_of("0123456789") != name.npos);
}

TEST_CASE("mpi world: parts keep the order of ranks, and one text reaches all of a part", "[net]") {
  const std::uint32_t part = job().rank() % 2;
  const auto half = job().split(part);
  REQUIRE(half);
  CHECK(half->rank() == job().rank() / 2);
  CHECK(half->size() == (job().size() + 1 - part) / 2);
  const auto told = half->tell(0, "from rank " + std::to_string(job().rank()));
  REQUIRE(told);
  CHECK(*told == "from rank " + std::to_string(part));
  CHECK(half->tell(half->size() - 1, "").value().empty());
}

TEST_CASE("mpi world: entering again gives the same job", "[net]") {
  const auto again = mpi_world::enter();
  REQUIRE(again);
  CHECK(again->rank() == job().rank());
  CHECK(again->size() == job().size());
}
