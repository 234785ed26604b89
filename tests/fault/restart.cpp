// SPDX-License-Identifier: Apache-2.0
#include <causeway/fault/restart.hpp>

#include <causeway/comm/periodic.hpp>
#include <causeway/io/memory_storage.hpp>
#include <causeway/train/common_cut.hpp>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/conformance.hpp"

using namespace causeway;

namespace {

struct at_step {
  std::uint64_t now = 0;
  [[nodiscard]] std::uint64_t step() const { return now; }
};

}  // namespace

TEST_CASE("restart: commits what succeeded, aborts at the first failure, and notes how far it came", "[fault][fast]") {
  const auto furthest = std::make_shared<std::uint64_t>(4);
  fault::restart policy{furthest};
  at_step ctx{6};
  CHECK(policy.begin_step(ctx));
  CHECK(policy.end_step(ctx, result<void>{}).value() == verdict::commit);
  CHECK(*furthest == 6);
  ctx.now = 9;
  CHECK(policy.end_step(ctx, fail(errc::peer_lost, "peer 1", "gone")).value() == verdict::abort);
  CHECK(*furthest == 6);
  policy.reached(5);
  CHECK(*furthest == 6);
  policy.reached(7);
  CHECK(*furthest == 7);
  STATIC_REQUIRE(!fault::restart::traits.retries);
}

TEST_CASE("restart: the conformance suite", "[fault][fast]") {
  support::check_fault_policy([] { return fault::restart{}; });
}

TEST_CASE("restart: an attempt that succeeds is the last", "[fault][fast]") {
  int attempts = 0;
  const auto outcome = fault::with_restarts([&](const fault::restart&) -> result<int> { return ++attempts; });
  CHECK(outcome.value() == 1);
  CHECK(attempts == 1);
}

TEST_CASE("restart: only what comes from others begins another attempt", "[fault][fast]") {
  for (std::uint16_t code = 1; code <= 22; ++code) {
    const auto what = static_cast<errc>(code);
    const bool others = what == errc::peer_lost || what == errc::timeout || what == errc::unreachable;
    INFO(to_string(what));
    int attempts = 0;
    const auto outcome = fault::with_restarts([&](const fault::restart&) -> result<int> {
      if (++attempts == 1) return fail(what, "peer 1", "");
      return 7;
    });
    CHECK(attempts == (others ? 2 : 1));
    CHECK(outcome.has_value() == others);
    if (!outcome) CHECK(outcome.error().code == what);
  }
}

TEST_CASE("restart: attempts that get no further end with the error, and one that does begins the count anew",
          "[fault][fast]") {
  const auto attempts_of = [](std::vector<std::uint64_t> reached, fault::restart_options options) {
    std::size_t attempts = 0;
    const auto outcome = fault::with_restarts(
        [&](const fault::restart& policy) -> result<void> {
          policy.reached(reached.at(attempts++));
          return fail(errc::peer_lost, "peer 1", "gone");
        },
        options);
    REQUIRE(!outcome);
    CHECK(outcome.error().code == errc::peer_lost);
    return attempts;
  };
  CHECK(attempts_of({0, 0, 0, 0, 0}, {}) == 3);
  CHECK(attempts_of({5, 5, 4, 5, 9}, {}) == 4);
  CHECK(attempts_of({5, 5, 5, 6, 6, 6, 6}, {}) == 7);
  CHECK(attempts_of({5, 5, 6}, {.in_vain = 1}) == 2);
  CHECK(attempts_of({5, 6}, {.in_vain = 0}) == 1);
}

namespace {

constexpr std::uint32_t members = 3;
constexpr std::uint64_t steps = 7;

// Where peers come together: each attempt has a network of its own, which is there when all are.
class meeting {
 public:
  meeting(std::uint32_t victim, std::uint64_t nth) : victim_{victim}, nth_{nth} {}

  net::memory_network come() {
    std::unique_lock lock{mutex_};
    if (arrived_ == 0) {
      network_ = net::memory_network{members};
      if (++attempts_ == 1) network_.kill_at(victim_, nth_);
    }
    wait_for_all(lock);
    return network_;
  }

  // Whether all have ended the attempt well.
  bool leave(bool well) {
    std::unique_lock lock{mutex_};
    if (arrived_ == 0) all_well_ = true;
    all_well_ = all_well_ && well;
    wait_for_all(lock);
    return all_well_;
  }

  [[nodiscard]] int attempts() const { return attempts_; }

 private:
  void wait_for_all(std::unique_lock<std::mutex>& lock) {
    const std::uint64_t now = generation_;
    if (++arrived_ == members) {
      arrived_ = 0;
      ++generation_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return generation_ != now; });
  }

  std::uint32_t victim_;
  std::uint64_t nth_;
  std::mutex mutex_;
  std::condition_variable changed_;
  net::memory_network network_{members};
  std::uint32_t arrived_ = 0;
  std::uint64_t generation_ = 0;
  bool all_well_ = true;
  int attempts_ = 0;
};

// From the newest round that all hold, as a program of one's own goes on.
result<std::vector<float>> attempt(std::uint32_t self, fault::restart policy, net::memory_network network,
                                   io::memory_storage disk) {
  environment env;
  env.transport = net::any_transport{network.transport(self)};
  auto t = make_trainer(support::test_model{support::quadratic{37}}, std::move(env), {},
                        comm::periodic<>{{.local_steps = 2}}, std::move(policy));
  io::checkpoint_directory<io::memory_storage> checkpoints{std::move(disk), "peer-" + std::to_string(self), 3};
  CAUSEWAY_ASSIGN(const auto resumed, resume_together(t, checkpoints, io::archiver{}, [](const error&) {}));
  CAUSEWAY_TRY(t.start());
  const auto save = [&]() -> result<void> {
    CAUSEWAY_ASSIGN(const auto sections, save_state(t, io::archiver{}));
    return checkpoints.save(t.context().step(), sections);
  };
  if (!resumed) CAUSEWAY_TRY(save());
  while (t.context().step() < steps) {
    const auto tokens = support::tokens_of(self, t.context().step());
    CAUSEWAY_TRY(t.step({tokens, tokens, 1}));
    CAUSEWAY_TRY(save());
  }
  CAUSEWAY_TRY(t.finish());
  const auto values = t.model().parameters().values();
  return std::vector<float>{values.begin(), values.end()};
}

struct ended {
  std::vector<std::vector<float>> parameters{members};
  int attempts = 0;
};

// Peers of which one is lost at its n-th network operation of the first attempt.
ended run(std::uint32_t victim, std::uint64_t nth) {
  meeting together{victim, nth};
  ended end;
  std::vector<std::thread> threads;
  for (std::uint32_t self = 0; self < members; ++self) {
    threads.emplace_back([&, self] {
      const io::memory_storage disk;
      const auto outcome = fault::with_restarts([&](const fault::restart& policy) -> result<std::vector<float>> {
        auto got = attempt(self, policy, together.come(), disk);
        if (!together.leave(got.has_value()) && got) return fail(errc::peer_lost, "another peer", "did not end");
        return got;
      });
      if (outcome) end.parameters[self] = *outcome;
    });
  }
  for (auto& t : threads) t.join();
  end.attempts = together.attempts();
  return end;
}

}  // namespace

TEST_CASE("restart: whatever network operation a peer is lost at, all end with the bits of a run without a failure",
          "[fault][fast]") {
  const ended undisturbed = run(0, 1'000'000);
  REQUIRE(undisturbed.attempts == 1);
  for (const auto& values : undisturbed.parameters) REQUIRE(!values.empty());
  for (std::uint32_t victim = 0; victim < members; ++victim) {
    std::uint64_t lost = 0;
    for (std::uint64_t nth = 0;; ++nth) {
      INFO("peer " << victim << " is lost at its network operation " << nth);
      const ended got = run(victim, nth);
      const bool same = got.parameters == undisturbed.parameters;
      CHECK(same);
      if (got.attempts == 1) break;  // past the end
      CHECK(got.attempts == 2);
      ++lost;
    }
    CHECK(lost > 10);
  }
}
