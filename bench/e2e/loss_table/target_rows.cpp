// SPDX-License-Identifier: Apache-2.0
// Rows that are only there for a target: variations of DiLoCo, and what it has to beat.
#include <causeway/optim/adamw.hpp>
#include <causeway/presets/local_updates.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "row.hpp"

namespace losses {

using namespace causeway;
using presets::make;

namespace {

/// L10: how many of the peers train in a round; the others take the result over. Four in the mean, in each schedule.
struct varying_pool {
  static constexpr axis::part decides = axis::part::participation;
  static constexpr bool always = false;
  static constexpr bool keeps_local = false;

  double first = 4;
  double last = 4;
  std::uint64_t rounds = 20;

  [[nodiscard]] static result<void> check() { return {}; }
  /// Of round `number`: a line from `first` to `last`, rounded so that sums are equal.
  [[nodiscard]] std::uint32_t size(std::uint64_t number) const {
    const auto total = [&](std::uint64_t n) {
      const double x = static_cast<double>(n) / static_cast<double>(rounds);
      return std::llround(static_cast<double>(rounds) * (first * x + (last - first) * x * x / 2));
    };
    const std::uint64_t n = std::min(number, rounds - 1);
    return static_cast<std::uint32_t>(total(n + 1) - total(n));
  }
  [[nodiscard]] bool contributes(const axis::group_question& q) const { return q.self < size(q.number); }
};
static_assert(axis::Participation<varying_pool>);

row pool_row(std::string name, double first, double last) {
  return {std::move(name), "",
          [=](const plan& p) {
            const varying_pool pool{first, last, p.steps / p.local_steps};
            const std::uint64_t h = p.local_steps;
            tweaks t;
            // Who is not in the pool does not train; one sequence keeps its clock going.
            t.sequences = [=, all = p.sequences](std::uint32_t peer, std::uint64_t step) {
              return peer < pool.size(step / h) ? all : std::int64_t{1};
            };
            return train(
                p,
                [&] {
                  return comm::rounds{axis::every{p.local_steps}, pool,
                                      axis::outer<optim::nesterov>{0.7F, optim::nesterov{{.momentum = p.momentum}}}};
                },
                [] { return optim::adamw{}; }, t);
          },
          false};
}

row dropping_row(std::uint32_t percent) {
  row r = make_row(
      "diloco, " + std::to_string(percent) + " % dropped", "",
      [percent](const plan& p) {
        return comm::rounds{axis::every{p.local_steps}, axis::dropped_rows{percent / 100.0},
                            axis::outer<optim::nesterov>{0.7F, optim::nesterov{{.momentum = p.momentum}}}};
      },
      [] { return optim::adamw{}; });
  r.in_table = false;
  return r;
}

row alone() {
  return {"one peer alone", "no communication; 1/peers of the tokens",
          [](const plan& p) {
            plan one = p;
            one.peers = 1;
            return train(
                one, [] { return presets::every_step{}; }, [] { return optim::adamw{}; });
          },
          false};
}

row short_rounds() {
  row r = make_row(
      "diloco, half the steps", "half of H",
      [](const plan& p) {
        return make(presets::diloco_options{.local_steps = p.local_steps / 2, .outer_momentum = p.momentum});
      },
      [] { return optim::adamw{}; });
  r.in_table = false;
  return r;
}

}  // namespace

std::vector<row> target_rows() {
  return {alone(),
          short_rounds(),
          dropping_row(50),
          dropping_row(90),
          pool_row("pool of 4", 4, 4),
          pool_row("pool from 1 to 7", 1, 7),
          pool_row("pool from 7 to 1", 7, 1)};
}

}  // namespace losses
