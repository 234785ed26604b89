// SPDX-License-Identifier: Apache-2.0
// What a lost peer's absence is to presets that train on while an exchange is under way: rows that were sent before the
// loss, or made but not sent, count as if there had never been another peer in that exchange. Each step and each merge is
// made again here, by hand.

#include <causeway/presets/overlapped.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "support/catch.hpp"
#include "support/lost_peer.hpp"

using namespace causeway;
using presets::make;
using support::blocky;
using support::doubles;
using support::logged_step;
using support::outer_by_hand;

namespace {

constexpr double outer_rate = 0.4, outer_momentum = 0.9;

using places = std::vector<std::size_t>;

/// Streaming DiLoCo's fragments of four blocks, two in each: what is in no block, then every second block.
std::vector<places> fragments() {
  const auto blocks = support::places_by_block<blocky>();
  std::vector<places> all{blocks[0], blocks[1], blocks[2]};
  all[1].insert(all[1].end(), blocks[3].begin(), blocks[3].end());
  all[2].insert(all[2].end(), blocks[4].begin(), blocks[4].end());
  return all;
}
doubles at(const places& part, const doubles& all) {
  doubles row;
  for (const std::size_t i : part) row.push_back(all[i]);
  return row;
}

/// A sign and the nearest of seven powers of two, the largest of which is the nearest to the largest value, or zero.
doubles four_bits(doubles row) {
  const auto nearest = [](double x) {
    const double below = std::exp2(std::floor(std::log2(x)));
    return x >= 1.5 * below ? 2 * below : below;
  };
  double largest = 0;
  for (const double x : row) largest = std::max(largest, std::abs(x));
  const double scale = nearest(largest), smallest = scale / 64;
  for (double& x : row) {
    const double size = std::abs(x);
    const double level = size < smallest / 2 ? 0 : std::clamp(nearest(size), smallest, scale);
    x = std::copysign(level, x);
  }
  return row;
}
doubles as_it_is(doubles row) { return row; }

/// A fragment when its mean has come back: what the live values are that the last step made, what they were when the row
/// was sent, and the shared ones after the outer step.
struct merge_rule {
  const places& part;
  const doubles& made;
  const doubles& at_send;
  const doubles& shared;
};

/// Half of the live values.
doubles blended(const merge_rule& l) {
  doubles to;
  for (std::size_t i = 0; i < l.made.size(); ++i) to.push_back(0.5 * l.made[i] + 0.5 * l.shared[i]);
  return to;
}
/// The step that was made meanwhile, corrected in each tensor by as much as it is long.
doubles compensated(const merge_rule& l) {
  doubles to = l.shared;
  blocky model{4};
  for (const parameter_segment& s : model.parameters().segments()) {
    const auto mine = [&](std::size_t i) {
      const auto place = static_cast<std::int64_t>(l.part[i]);
      return place >= s.offset && place < s.offset + s.size();
    };
    const auto meanwhile = [&](std::size_t i) { return l.at_send[i] - l.made[i]; };
    const auto correction = [&](std::size_t i) { return meanwhile(i) * meanwhile(i) * (l.shared[i] - l.at_send[i]); };
    double steps = 0, corrections = 0;
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (!mine(i)) continue;
      steps += meanwhile(i) * meanwhile(i);
      corrections += correction(i) * correction(i);
    }
    for (std::size_t i = 0; i < to.size() && corrections > 0; ++i) {
      if (mine(i)) to[i] -= meanwhile(i) + std::sqrt(steps / corrections) * correction(i);
    }
  }
  return to;
}

/// Rows go out after one step and are applied after the next.
struct overlapped_by_hand {
  doubles (*sent)(doubles);
  doubles (*applied)(const merge_rule&);
  std::vector<places> parts = fragments();
  doubles shared = support::first_parameters<blocky>();
  outer_by_hand outer{.rate = outer_rate, .momentum = outer_momentum, .nesterov = true};
  std::size_t with_three = 0, with_two = 0;

  /// Of the two that stay, from step s on to the next.
  void check_step(const support::peer_logs& logs, std::size_t s) {
    std::vector<doubles> next;
    for (std::uint32_t peer = 0; peer < 2; ++peer) next.push_back(support::stepped<blocky>(logs.at(peer)[s]));
    for (const places& part : parts) {
      const bool came = support::distance(at(part, next[0]), at(part, logs.at(0)[s + 1].before)) > 1e-4;
      if (came) apply(logs, s, part, next);
    }
    for (std::uint32_t peer = 0; peer < 2; ++peer) {
      CHECK(support::distance(next[peer], logs.at(peer)[s + 1].before) < 5e-5);
    }
  }

 private:
  void apply(const support::peer_logs& logs, std::size_t s, const places& part, std::vector<doubles>& next) {
    REQUIRE(s > 0);
    const std::size_t present = s < logs.at(2).size() ? 3 : 2;  // who was lost made no step after it had a row to send
    ++(present == 3 ? with_three : with_two);
    std::vector<doubles> at_send;
    doubles mean(part.size());
    for (std::uint32_t peer = 0; peer < present; ++peer) {
      at_send.push_back(at(part, support::stepped<blocky>(logs.at(peer)[s - 1])));
      doubles row = at(part, shared);
      for (std::size_t i = 0; i < row.size(); ++i) row[i] -= at_send.back()[i];
      row = sent(row);
      for (std::size_t i = 0; i < row.size(); ++i) mean[i] += row[i] / static_cast<double>(present);
    }
    for (std::size_t i = 0; i < mean.size(); ++i) shared[part[i]] += outer.step(part[i], mean[i]);
    for (std::uint32_t peer = 0; peer < 2; ++peer) {
      const doubles to = applied({part, at(part, next[peer]), at_send[peer], at(part, shared)});
      for (std::size_t i = 0; i < to.size(); ++i) next[peer][part[i]] = to[i];
    }
  }
};

template <class MakePolicy>
void check_overlapped(MakePolicy policy, overlapped_by_hand by_hand) {
  const support::peer_logs logs = support::logs_of_three<blocky>(policy);
  const std::size_t all = logs.at(0).size() - 8;  // the last exchange is of all fragments
  REQUIRE(logs.at(1).size() == logs.at(0).size());
  for (std::size_t s = 0; s < all; ++s) {
    INFO("step " << s);
    by_hand.check_step(logs, s);
  }
  CHECK(by_hand.with_three == 2);
  CHECK(by_hand.with_two > 6);
}

}  // namespace

TEST_CASE("absence: of a lost peer Streaming DiLoCo's fragments under way have nothing", "[presets][fast]") {
  const auto policy = [] {
    return make(presets::streaming_diloco_options{.local_steps = 6, .blocks_in_fragment = 2, .overlap_steps = 1});
  };
  check_overlapped(policy, {.sent = four_bits, .applied = blended});
}

TEST_CASE("absence: of a lost peer CoCoDC's fragments have nothing, and what was trained meanwhile is corrected alike",
          "[presets][fast]") {
  const auto policy = [] {
    return make(presets::cocodc_options{.local_steps = 6, .blocks_in_fragment = 2, .overlap_steps = 1});
  };
  check_overlapped(policy, {.sent = as_it_is, .applied = compensated});
}

TEST_CASE("absence: a lost peer's last row is in nobody's eager update, and own rows are taken back as they were given",
          "[presets][fast]") {
  using support::quadratic;
  const auto policy = [] { return make(presets::eager_diloco_options{.local_steps = 3, .outer_momentum = 0.5F}); };
  const support::peer_logs logs = support::logs_of_three<quadratic>(policy, 4, 6);
  std::vector<std::vector<support::exchanged>> of;
  for (const auto& [host, steps] : logs) of.push_back(support::exchanges_of<quadratic>(steps));
  const std::size_t before = of[2].size(), all = of[0].size() - 2, size = of[0][0].got.size();
  REQUIRE(before >= 2);
  REQUIRE(all > before + 2);
  const outer_by_hand outer{.rate = 0.7, .momentum = 0.5, .nesterov = true};
  outer_by_hand together = outer;
  std::vector<outer_by_hand> alone(3, outer);
  doubles shared = support::first_parameters<quadratic>();
  std::vector<doubles> own(3, doubles(size)), row(3), given(3, doubles(size)), from(3, shared);
  for (std::size_t k = 0; k < all; ++k) {
    INFO("merge rule " << k);
    const std::size_t present = k < before ? 3 : 2;
    for (std::size_t i = 0; i < size && k > 0; ++i) {
      double mean = 0;
      for (std::size_t peer = 0; peer < present; ++peer) mean += row[peer][i] / static_cast<double>(present);
      shared[i] += together.step(i, mean);
    }
    for (std::size_t peer = 0; peer < present; ++peer) {
      row[peer].assign(size, 0);
      doubles to = shared;
      for (std::size_t i = 0; i < size; ++i) {
        row[peer][i] = from[peer][i] - of[peer][k].put_in[i];
        const double fresh = row[peer][i] / static_cast<double>(present);
        own[peer][i] += alone[peer].step(i, fresh - given[peer][i]);
        given[peer][i] = fresh;
        to[i] += own[peer][i];
      }
      CHECK(support::distance(of[peer][k].got, to) < 1e-3 * support::distance(from[peer], to));
      from[peer] = of[peer][k].got;
    }
  }
}
