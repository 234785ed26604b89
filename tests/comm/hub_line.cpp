// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/hub_line.hpp>

#include <causeway/axis/by_speed.hpp>
#include <causeway/comm/async_parameter_server.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/train/trainer.hpp>

#include <stdexcept>
#include <vector>

#include "support/blocky.hpp"
#include "support/catch.hpp"
#include "support/cluster.hpp"

using namespace causeway;

TEST_CASE("hub line: messages come in their order, any number of them under way, and losses end it", "[comm][fast]") {
  net::memory_network network{2};
  net::any_transport a{network.transport(0)};
  auto b = std::make_unique<net::any_transport>(network.transport(1));
  comm::detail::hub_line here{a, 1, 100, 101, 16};
  auto there = std::make_unique<comm::detail::hub_line>(*b, 0, 101, 100, 16);
  for (std::uint8_t i = 0; i < 5; ++i) there->send({std::byte{i}});
  for (std::uint8_t i = 0; i < 5; ++i) {
    const auto got = here.take(no_deadline);
    REQUIRE(got);
    CHECK((*got)[0] == std::byte{i});
  }
  REQUIRE(there->flush(no_deadline));
  CHECK_FALSE(here.arrived());
  there.reset();
  b.reset();
  const auto gone = here.take(no_deadline);
  REQUIRE_FALSE(gone);
  CHECK(gone.error().code == errc::peer_lost);
}

TEST_CASE("hub line: a message that is longer than it may be is an error", "[comm][fast]") {
  net::memory_network network{2};
  net::any_transport a{network.transport(0)};
  net::any_transport b{network.transport(1)};
  comm::detail::hub_line here{a, 1, 100, 101, 16};
  comm::detail::hub_line there{b, 0, 101, 100, 16};
  there.send(std::vector<std::byte>(17));
  CHECK(here.take(no_deadline).error().code == errc::too_large);
}

TEST_CASE("hub line: peers on threads of their own end alike, in whatever order their pushes came", "[comm][fast]") {
  std::vector<std::vector<float>> ends(4);
  support::run_cluster(4, [&](std::uint32_t peer, environment env) {
    auto t = make_trainer(
        support::test_model{support::blocky{}}, std::move(env), {},
        comm::async_parameter_server{axis::by_speed{{.local_steps = 3}}, axis::delayed{1, 0.5F}, axis::balanced{2}},
        optim::sgd{});
    auto outcome = t.start();
    for (std::uint64_t s = 0; outcome && s < 30; ++s) {
      const auto tokens = support::tokens_of(peer, s);
      const auto report = t.step({tokens, tokens, 1});
      if (!report) outcome = report.error();
    }
    if (outcome) outcome = t.finish();
    if (!outcome) throw std::runtime_error{outcome.error().text()};
    const auto values = t.model().parameters().values();
    ends[peer].assign(values.begin(), values.end());
  });
  for (const auto& end : ends) CHECK(end == ends[0]);
}
