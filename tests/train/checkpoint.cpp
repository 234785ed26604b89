// SPDX-License-Identifier: Apache-2.0
#include <causeway/train/checkpoint.hpp>

#include <causeway/comm/every_step.hpp>

#include "support/conformance.hpp"

using namespace causeway;

namespace {

io::section_file written(const support::saved_state& bytes) {
  auto file = io::section_file::parse(bytes, "memory");
  REQUIRE(file);
  return std::move(file).value();
}

template <class... Policies>
auto trained(std::uint64_t steps, std::int64_t size, Policies... policies) {
  auto t = make_trainer(support::test_model{support::quadratic{size}}, environment{}, {}, std::move(policies)...);
  REQUIRE(t.start());
  for (std::uint64_t s = 0; s < steps; ++s) {
    const auto tokens = support::tokens_of(0, s);
    REQUIRE(t.step({tokens, tokens, 1}));
  }
  return t;
}

}  // namespace

TEST_CASE("checkpoint: says where in the run it was made", "[train][fast]") {
  auto t = trained(5, 37, comm::periodic<>{{.local_steps = 2}});
  const auto where = read_cut(written(support::save(t)), io::archiver{});
  REQUIRE(where);
  CHECK(where->step == 5);
  CHECK(where->round == 2);
}

TEST_CASE("checkpoint: of another model is refused and changes nothing", "[train][fast]") {
  auto small = trained(2, 37, comm::every_step<>{});
  auto large = trained(3, 53, comm::every_step<>{});
  const auto before = support::save(large);
  const auto outcome = restore_state(large, written(support::save(small)), io::archiver{});
  REQUIRE(!outcome);
  CHECK(outcome.error().code == errc::wrong_model);
  CHECK(support::save(large) == before);
}

TEST_CASE("checkpoint: of other policies is refused with both sides named", "[train][fast]") {
  auto synchronous = trained(2, 37, comm::every_step<>{});
  auto local = trained(2, 37, comm::periodic<>{});
  const auto outcome = restore_state(local, written(support::save(synchronous)), io::archiver{});
  REQUIRE(!outcome);
  CHECK(outcome.error().text().find("comm.every_step") != std::string::npos);
  CHECK(outcome.error().text().find("comm.periodic") != std::string::npos);
}

TEST_CASE("checkpoint: saved between a step and its failed exchange, goes on with that exchange", "[train][fast]") {
  // Peer 1 is lost in the first exchange; peer 0 saves, and both meet again from there.
  const auto run = [](bool broken) {
    std::vector<std::vector<float>> ends(2);
    std::vector<support::saved_state> states(2);
    const auto make = [](environment env) {
      return make_trainer(support::test_model{support::quadratic{}}, std::move(env), {},
                          comm::periodic<>{{.local_steps = 2}});
    };
    const auto steps = [](auto& t, std::uint32_t peer, std::uint64_t until) {
      while (t.context().step() < until) {
        const auto tokens = support::tokens_of(peer, t.context().step());
        if (!t.step({tokens, tokens, 1})) return false;
      }
      return true;
    };
    if (broken) {
      net::memory_network network{2};
      support::run_cluster(network, 2, [&](std::uint32_t peer, environment env) {
        auto t = make(std::move(env));
        REQUIRE(t.start());
        if (peer == 1) {
          CHECK(steps(t, peer, 1));  // leaves before the exchange in step 2
        } else {
          CHECK(!steps(t, peer, 4));
          CHECK(t.context().step() == 1);
        }
        states[peer] = support::save(t);
      });
    }
    support::run_cluster(2, [&](std::uint32_t peer, environment env) {
      auto t = make(std::move(env));
      if (broken) support::load(t, states[peer]);
      REQUIRE(t.start());
      REQUIRE(steps(t, peer, 4));
      const auto v = t.model().parameters().values();
      ends[peer].assign(v.begin(), v.end());
    });
    return ends;
  };
  CHECK(run(true) == run(false));
}
