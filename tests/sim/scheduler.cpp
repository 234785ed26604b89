// SPDX-License-Identifier: Apache-2.0
#include <causeway/sim/scheduler.hpp>

#include <causeway/core/rng.hpp>

#include <optional>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

void run_all(sim::scheduler& s) {
  while (!s.empty()) s.run_next();
}

}  // namespace

TEST_CASE("scheduler: events happen in the order of their times, equal times in the order they were asked for",
          "[sim][fast]") {
  sim::scheduler s;
  std::vector<int> seen;
  for (const int i : {3, 1, 2}) {
    for (int k = 0; k < 3; ++k) {
      s.at(time_point{i * 1s}, {}, [&seen, i, k] { seen.push_back(10 * i + k); });
    }
  }
  run_all(s);
  CHECK(seen == std::vector<int>{10, 11, 12, 20, 21, 22, 30, 31, 32});
  CHECK(s.now() == time_point{3s});
  CHECK(s.executed() == 9);
}

TEST_CASE("scheduler: an event in the past happens now, after those asked for before", "[sim][fast]") {
  sim::scheduler s;
  std::vector<int> seen;
  s.at(time_point{5s}, {}, [&] {
    s.at(time_point{1s}, {}, [&] {
      seen.push_back(2);
      CHECK(s.now() == time_point{5s});
    });
  });
  s.at(time_point{5s}, {}, [&] { seen.push_back(1); });
  run_all(s);
  CHECK(seen == std::vector<int>{1, 2});
}

TEST_CASE("scheduler: any mix of asking and cancelling leaves the rest in order", "[sim][fast]") {
  sim::scheduler s;
  rng random{7};
  std::vector<std::pair<sim::scheduler::ticket, bool>> all;  // ticket, cancelled
  std::vector<time_point> happened;
  std::size_t wanted = 0;
  for (int i = 0; i < 3000; ++i) {
    const time_point when{duration{static_cast<std::int64_t>(random.below(500))}};
    all.emplace_back(s.at(when, {}, [&] { happened.push_back(s.now()); }), false);
    if (random.below(3) == 0) {
      auto& victim = all[random.below(all.size())];
      s.cancel(victim.first);
      s.cancel(victim.first);  // twice does no harm
      victim.second = true;
    }
  }
  for (const auto& [ticket, cancelled] : all) wanted += cancelled ? 0 : 1;
  CHECK(s.pending() == wanted);
  run_all(s);
  CHECK(happened.size() == wanted);
  CHECK(std::is_sorted(happened.begin(), happened.end()));
}

TEST_CASE("scheduler: an old ticket never cancels a newer event", "[sim][fast]") {
  sim::scheduler s;
  int happened = 0;
  const auto old = s.at(time_point{1s}, {}, [] {});
  run_all(s);
  s.at(time_point{2s}, {}, [&] { ++happened; });  // takes the same place
  s.cancel(old);
  s.cancel(0);
  run_all(s);
  CHECK(happened == 1);
}

TEST_CASE("scheduler: a cancelled event frees what it captured at once", "[sim][fast]") {
  sim::scheduler s;
  const auto token = std::make_shared<int>(0);
  const auto ticket = s.at(time_point{1s}, {}, [token] {});
  CHECK(token.use_count() == 2);
  s.cancel(ticket);
  CHECK(token.use_count() == 1);
}

TEST_CASE("scheduler: the history tells time, kind, host, size and order apart", "[sim][fast]") {
  using label = sim::event_label;
  const auto history = [](duration when, std::vector<label> labels) {
    sim::scheduler s;
    for (const label& l : labels) s.at(time_point{when}, l, [] {});
    run_all(s);
    return s.history_hash();
  };
  const label a{sim::event_kind::arrive, 1, 100};
  const label b{sim::event_kind::arrive, 2, 100};
  const auto base = history(1s, {a, b});
  CHECK(base == history(1s, {a, b}));
  CHECK(base != history(2s, {a, b}));
  CHECK(base != history(1s, {b, a}));
  CHECK(base != history(1s, {a}));
  CHECK(base != history(1s, {{sim::event_kind::deliver, 1, 100}, b}));
  CHECK(base != history(1s, {{sim::event_kind::arrive, 1, 101}, b}));
}

TEST_CASE("scheduler: its clock can be read when it is gone", "[sim][fast]") {
  std::optional<sim::scheduler> s{std::in_place};
  const any_clock clock{s->clock()};
  s->at(time_point{3s}, {}, [] {});
  s->run_next();
  s.reset();
  CHECK(clock.now() == time_point{3s});
}
