// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/utilisation.hpp>

#include <causeway/core/rng.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using plan::exchange_pattern;
using plan::training_step;

namespace {

/// The graph written out: every node with what it waits for, and its end as the longest path. Shares nothing with the
/// timeline but the rules.
class written_out_graph {
 public:
  written_out_graph(const training_step& s, const exchange_pattern& p, double bits_per_second, std::size_t steps)
      : layers_{s.layers} {
    const double compute = s.seconds / static_cast<double>(3 * s.layers - 1);
    const double exchange = p.bits * s.parameters / static_cast<double>(s.layers) / bits_per_second;
    const std::size_t spacing = p.spacing == 0 ? p.period / p.fragments : p.spacing;
    // sent[t][l]: the node that exchanges layer l after step t, or none
    std::vector<std::vector<std::size_t>> sent(steps, std::vector<std::size_t>(layers_, none));
    std::size_t device = none, link = none;
    for (std::size_t t = 0; t < steps; ++t) {
      for (std::size_t l = 0; l < layers_; ++l) {
        const std::size_t needed = t >= p.overlap + 1 ? sent[t - p.overlap - 1][l] : none;
        device = add(compute, {device, needed});
      }
      for (std::size_t l = layers_; l-- > 0;) {
        device = add(compute, {device, none});
        if ((t + 1) % p.period == (l % p.fragments) * spacing % p.period) sent[t][l] = link = add(exchange, {device, link});
        if (l > 0) device = add(compute, {device, none});
      }
      ends_.push_back(ends_of_[device]);
    }
  }

  [[nodiscard]] double seconds(std::size_t from, std::size_t to) const { return ends_[to - 1] - ends_[from - 1]; }
  [[nodiscard]] std::size_t nodes() const { return ends_of_.size(); }

 private:
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  std::size_t add(double takes, std::array<std::size_t, 2> after) {
    double begin = 0;
    for (const std::size_t a : after) begin = std::max(begin, a == none ? 0 : ends_of_[a]);
    ends_of_.push_back(begin + takes);
    return ends_of_.size() - 1;
  }

  std::size_t layers_;
  std::vector<double> ends_of_;
  std::vector<double> ends_;
};

constexpr training_step ten_billion{.layers = 48, .parameters = 1e10, .seconds = 0.8};

std::vector<double> grid() {
  std::vector<double> g;
  for (int i = 0; i < 50; ++i) g.push_back(1e9 * std::pow(10.0, -1 + 4.0 * i / 49));
  return g;
}

}  // namespace

TEST_CASE("utilisation: without bytes all time is computing", "[plan][fast]") {
  CHECK(plan::utilisation(ten_billion, {.period = 10, .bits = 0}, 1e9) == Approx(1.0));
}

TEST_CASE("utilisation: one layer exchanged after every step hides nothing", "[plan][fast]") {
  // Its gradient is the last node of a step, and the next step begins with its forward: 3 s and 1 s of exchange.
  CHECK(plan::utilisation({.layers = 1, .parameters = 1e9, .seconds = 3}, {.bits = 16}, 16e9) == Approx(0.75));
}

TEST_CASE("utilisation: two layers hide the upper one's exchange behind the lower one's gradient", "[plan][fast]") {
  // Five nodes of 1 s: F0 F1 W1 A1 W0. W1 ends at 3, so that its exchange of 1 s is over before W0 ends; that of layer 0
  // is waited for: 5 s of 6. With 3 s each: from 3 to 6 and on to 9, of which F0 waits for all: 5 of 9.
  const training_step step{.layers = 2, .parameters = 2, .seconds = 5};
  CHECK(plan::utilisation(step, {.bits = 1}, 1.0) == Approx(5.0 / 6.0));
  CHECK(plan::utilisation(step, {.bits = 3}, 1.0) == Approx(5.0 / 9.0));
}

TEST_CASE("utilisation: equals the longest path of the graph written out", "[plan][fast]") {
  rng draw{7};
  int overlapped = 0;
  for (int i = 0; i < 300; ++i) {
    const training_step s{.layers = 1 + draw.below(12), .parameters = 1e6, .seconds = 1};
    exchange_pattern p;
    p.period = 1 + draw.below(12);
    p.fragments = 1 + draw.below(std::min<std::uint64_t>(p.period, s.layers));
    p.spacing = draw.below(2) == 0 || p.fragments == 1 ? 0 : 1 + draw.below((p.period - 1) / (p.fragments - 1));
    p.overlap = draw.below(p.period);
    const double bits_per_second = 1e6 * std::pow(10.0, static_cast<double>(draw.below(300)) / 100.0);
    const std::size_t warm = 3000 / p.period * p.period;
    const written_out_graph g{s, p, bits_per_second, 2 * warm};
    INFO("case " << i);
    CHECK(plan::utilisation(s, p, bits_per_second) ==
          Approx(static_cast<double>(warm) * s.seconds / g.seconds(warm, 2 * warm)).epsilon(0.002));
    overlapped += p.overlap > 0 ? 1 : 0;
  }
  CHECK(overlapped > 100);
}

TEST_CASE("utilisation: a link that is one percent too slow shows, though its backlog grows slowly", "[plan][fast]") {
  const training_step step{.layers = 2, .parameters = 2, .seconds = 1};
  CHECK(plan::utilisation(step, {.period = 100, .fragments = 2, .overlap = 90, .bits = 50.5}, 1.0) == Approx(1 / 1.01));
}

TEST_CASE("utilisation: a step that exchanges everything is 4 L - 1 nodes", "[plan][fast]") {
  const written_out_graph g{{.layers = 24, .parameters = 1, .seconds = 1}, {}, 1.0, 1};
  CHECK(g.nodes() == 4 * 24 - 1);
}

TEST_CASE("utilisation: fragments, overlap, fewer bits and more bandwidth never hurt", "[plan][fast]") {
  for (const double b : {1e9, 5e9, 2e10, 1e11}) {
    const exchange_pattern whole{.period = 100};
    exchange_pattern fragments = whole;
    fragments.fragments = 16;
    fragments.spacing = 5;
    exchange_pattern overlap = fragments;
    overlap.overlap = 1;
    exchange_pattern four_bits = overlap;
    four_bits.bits = 4;
    const double u[] = {plan::utilisation(ten_billion, {}, b), plan::utilisation(ten_billion, whole, b),
                        plan::utilisation(ten_billion, fragments, b), plan::utilisation(ten_billion, overlap, b),
                        plan::utilisation(ten_billion, four_bits, b)};
    CHECK(std::is_sorted(std::begin(u), std::end(u)));
    CHECK(u[4] <= 1.0 + 1e-9);
    CHECK(plan::utilisation(ten_billion, fragments, b) < plan::utilisation(ten_billion, fragments, 1.2 * b));
  }
}

TEST_CASE("least_bandwidth: the first that reaches the target, and infinity when none does", "[plan][fast]") {
  const std::vector<double> g = grid();
  const exchange_pattern p{.period = 100};
  const double found = plan::least_bandwidth(ten_billion, p, 0.9, g);
  const auto at = std::find(g.begin(), g.end(), found);
  REQUIRE(at != g.end());
  REQUIRE(at != g.begin());
  CHECK(plan::utilisation(ten_billion, p, *at) >= 0.9);
  CHECK(plan::utilisation(ten_billion, p, *(at - 1)) < 0.9);
  CHECK(std::isinf(plan::least_bandwidth(ten_billion, {}, 0.99, std::span{g}.first(20))));
}

TEST_CASE("least_bandwidth: Streaming DiLoCo's table for 10 B parameters, within one grid point", "[plan][fast]") {
  // arXiv 2501.18512: DDP, DiLoCo, + fragments, + overlap, + FP4; Gbit/s for 50, 80, 90, 95 and 99 %.
  const std::vector<double> g = grid();
  const double targets[] = {0.5, 0.8, 0.9, 0.95, 0.99};
  const double published[5][5] = {{104.8, 222.3, 222.3, 268.3, 471.5},
                                  {1.7, 7.5, 16.0, 33.9, 104.8},
                                  {1.7, 5.2, 9.1, 13.3, 19.3},
                                  {1.7, 3.6, 5.2, 6.2, 7.5},
                                  {0.4, 0.9, 1.4, 1.4, 1.7}};
  exchange_pattern rows[5] = {{}, {.period = 100}, {.period = 100, .fragments = 16, .spacing = 5}};
  rows[3] = rows[2];
  rows[3].overlap = 1;
  rows[4] = rows[3];
  rows[4].bits = 4;
  for (int r = 0; r < 5; ++r) {
    for (int t = 0; t < 5; ++t) {
      const double ours = plan::least_bandwidth(ten_billion, rows[r], targets[t], g);
      INFO("row " << r << ", target " << targets[t] << ": " << ours);
      CHECK(std::abs(std::log10(ours / (1e9 * published[r][t]))) < 1.5 * 4.0 / 49);
    }
  }
}
