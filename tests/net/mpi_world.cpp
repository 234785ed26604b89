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

TEST_CASE("mpi world: one error is everybody's", "[net]") {
  const std::uint32_t self = job().rank(), last = job().size() - 1;
  CHECK(job().agree({}));

  std::uint32_t from = 99;
  const auto one =
      job().agree(self == last ? result<void>{fail(errc::disk_full, "a file", "is full")} : result<void>{}, &from);
  REQUIRE_FALSE(one);
  CHECK(from == last);
  CHECK(one.error().code == errc::disk_full);
  CHECK(one.error().where == "rank " + std::to_string(last) + ": a file");
  CHECK(one.error().message == "is full");

  const auto all =
      job().agree(fail(errc::invalid_argument, "a setting", "is wrong in rank " + std::to_string(self)), &from);
  REQUIRE_FALSE(all);
  CHECK(from == 0);
  CHECK(all.error().text() == "a setting: is wrong in rank 0 [invalid_argument]");  // all have one: it is nobody's own
}

TEST_CASE("mpi world: who lost another knows less than who knows why", "[net]") {
  const bool last = job().rank() + 1 == job().size();
  const error mine =
      last ? fail(errc::non_finite, "the loss", "is no number") : fail(errc::peer_lost, "site", "lost a rank");
  const auto agreed = job().agree(mine);
  REQUIRE_FALSE(agreed);
  CHECK(agreed.error().code == errc::non_finite);
  const auto lost = job().agree(fail(errc::peer_lost, "site", "lost a rank"));
  REQUIRE_FALSE(lost);
  CHECK(lost.error().code == errc::peer_lost);
}
