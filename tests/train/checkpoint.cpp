// SPDX-License-Identifier: Apache-2.0
#include <causeway/train/checkpoint.hpp>

#include <causeway/axis/by_change.hpp>
#include <causeway/comm/every_step.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/comm/server_client.hpp>
#include <causeway/optim/optimizer.hpp>

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

TEST_CASE("checkpoint: rounds of another composition are refused by the section's name", "[train][fast]") {
  auto adam = trained(3, 37, comm::rounds<axis::every, axis::outer<optim::adamw>>{});
  auto nesterov = trained(3, 37, comm::rounds<>{});
  const auto outcome = restore_state(nesterov, written(support::save(adam)), io::archiver{});
  REQUIRE(!outcome);
  CHECK(outcome.error().code == errc::corrupt);
  CHECK(outcome.error().text().starts_with("comm.rounds: "));
  CHECK(outcome.error().text().find("another composition of policies") != std::string::npos);
}

TEST_CASE("checkpoint: a count without bytes behind it takes no memory", "[train][fast]") {
  // `at`: where the object's bytes have its count, behind their byte order.
  const auto refused = [](auto value, std::size_t at) {
    auto bytes = io::to_bytes(value).value();
    const std::uint64_t count = std::uint64_t{1} << 60U;
    REQUIRE(bytes.size() >= at + sizeof count);
    std::memcpy(bytes.data() + at, &count, sizeof count);
    const auto read = io::from_bytes(bytes, value);
    REQUIRE(!read);
    CHECK(read.error().code == errc::corrupt);
    CHECK(read.error().message.find("it ends too early") != std::string::npos);
  };
  refused(axis::by_change{}, 1);
  refused(comm::rounds<>{}, 1);
  refused(comm::detail::server_client{}, 9);  // after the length of its anchor

  // A buffer that is read in pieces takes no more than there is, and notices that its pieces are not there.
  optim::state_buffer buffer;
  auto bytes = io::to_bytes(buffer).value();
  const std::uint64_t count = std::uint64_t{1} << 60U;
  std::memcpy(bytes.data() + 1, &count, sizeof count);
  bytes.resize(bytes.size() + 8);
  CHECK(!io::from_bytes(bytes, buffer));
  CHECK(buffer.size() <= 2);
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
