// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_TEMPLATES_HPP
#define CAUSEWAY_PLAN_TEMPLATES_HPP

// Pipeline templates that are worked out before anything fails: Oobleck (Jang et al., SOSP 2023, arXiv 2309.08125,
// section 4). n0 is the least number of peers that hold the model; there is a template for each size n0, n0 + 1, ..., up to
// N - f n0, so that f + 1 pipelines can be made of any number of peers from (f + 1) n0 to N: sizes without gaps add up to
// sums without gaps. A template is the cut of the blocks into stages, each on some accelerators of one peer, that minimises
// the time of a 1F1B iteration.
//
// That time is taken as the first micro-batch's way through all stages (fill and drain), and the slowest stage for each
// further one (steady): an upper bound, reached where the last stage is the slowest. It grows with the sum and the maximum
// of the stages, so that the search keeps every pair that no other beats in both: exact. It peels off one stage after
// another instead of halving, which visits fewer states than the paper's divide and conquer for the same optimum.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/stage_split.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::plan {

/// What peers are and how they are linked. All are alike.
struct template_peers {
  double memory = std::numeric_limits<double>::infinity();  ///< bytes, of each accelerator
  std::size_t accelerators = 1;                             ///< in each peer; a stage is on some of one peer
  double sharing = 1;  ///< each further accelerator of a stage adds that much of the first one's speed, in [0, 1]
  double hop = 0;      ///< seconds of a micro-batch from one stage to the next and its gradient back
};

struct template_stage {
  std::size_t first_block = 0;
  std::size_t end = 0;
  std::size_t accelerators = 1;
  std::size_t peer = 0;  ///< in the pipeline
  double seconds = 0;    ///< of a micro-batch, forward and backward
};

/// A pipeline of `peers` peers.
struct pipeline_template {
  std::size_t peers = 0;
  std::vector<template_stage> stages;
  double fill_drain = 0;  ///< seconds: all stages and hops
  double slowest = 0;     ///< seconds: of the stages

  /// Seconds that `micro_batches` take; 0 for none.
  [[nodiscard]] double seconds(std::size_t micro_batches) const noexcept {
    return micro_batches == 0 ? 0 : fill_drain + slowest * static_cast<double>(micro_batches - 1);
  }
  /// How many micro-batches are through in `limit` seconds, at most `most`. The inverse of `seconds`.
  [[nodiscard]] std::size_t within(double limit, std::size_t most) const noexcept {
    if (limit < fill_drain) return 0;
    std::size_t n = most;
    if (slowest > 0) n = static_cast<std::size_t>(std::min((limit - fill_drain) / slowest + 1, static_cast<double>(most)));
    while (n < most && seconds(n + 1) <= limit) ++n;  // the division rounds
    while (n > 0 && seconds(n) > limit) --n;
    return n;
  }
};

/// Templates of consecutive sizes.
struct template_set {
  std::size_t failures = 0;  ///< f
  std::vector<pipeline_template> templates;

  [[nodiscard]] std::size_t smallest() const { return templates.front().peers; }  ///< n0
  [[nodiscard]] std::size_t largest() const { return templates.back().peers; }
  [[nodiscard]] bool has(std::size_t peers) const { return peers >= smallest() && peers <= largest(); }
  [[nodiscard]] const pipeline_template& of(std::size_t peers) const {
    CAUSEWAY_EXPECT(has(peers));
    return templates[peers - smallest()];
  }
};

namespace detail {

class template_cutter {
 public:
  template_cutter(const model_cost& model, const template_peers& peers, std::size_t micro_batches)
      : sums_{model}, blocks_{model.blocks.size()}, peers_{peers}, micro_batches_{micro_batches} {}

  /// The best template of `n` peers; no stages: the model does not fit, or has too few blocks.
  [[nodiscard]] pipeline_template best(std::size_t n) {
    fill(n);
    const std::vector<point>& ends = at(blocks_, n * peers_.accelerators);
    pipeline_template t{n, {}, 0, 0};
    const point* chosen = nullptr;
    const auto seconds = [&](const point& p) { return p.sum + static_cast<double>(micro_batches_ - 1) * p.most; };
    for (const point& p : ends) {
      if (chosen == nullptr || seconds(p) < seconds(*chosen)) chosen = &p;
    }
    if (chosen == nullptr) return t;
    t.fill_drain = chosen->sum;
    t.slowest = chosen->most;
    std::size_t end = blocks_, used = n * peers_.accelerators;
    for (const point* p = chosen; end > 0;) {
      const std::size_t mine = used - p->used;
      t.stages.push_back({p->block, end, mine, p->used / peers_.accelerators, stage_seconds(p->block, end, mine)});
      const point* next = &at(p->block, p->used)[p->before];
      end = p->block;
      used = p->used;
      p = next;
    }
    std::reverse(t.stages.begin(), t.stages.end());
    return t;
  }

 private:
  struct point {
    double sum = 0;
    double most = 0;
    std::size_t block = 0, used = 0, before = 0;  // where the last stage begins, and the point it was added to
  };

  std::vector<point>& at(std::size_t block, std::size_t used) { return points_[block * width_ + used]; }

  [[nodiscard]] double stage_seconds(std::size_t from, std::size_t to, std::size_t accelerators) const {
    return sums_.of(&block_cost::seconds, from, to) / (1 + peers_.sharing * static_cast<double>(accelerators - 1));
  }

  /// Blocks [0, b) on exactly u accelerators, for all b and u; a peer's next stage never reaches into the next peer.
  void fill(std::size_t n) {
    width_ = n * peers_.accelerators + 1;
    points_.assign((blocks_ + 1) * width_, {});
    at(0, 0).push_back({});
    for (std::size_t u = 1; u < width_; ++u) {
      for (std::size_t b = 1; b <= blocks_; ++b) {
        for (std::size_t mine = 1; mine <= (u - 1) % peers_.accelerators + 1; ++mine) {
          for (std::size_t from = 0; from < b; ++from) add_stage(from, b, u - mine, mine);
        }
      }
    }
  }

  void add_stage(std::size_t from, std::size_t to, std::size_t used, std::size_t mine) {
    const std::vector<point>& before = at(from, used);
    if (before.empty()) return;
    // 1F1B keeps a micro-batch for its own and each later stage. How many come is open here: at most one per accelerator.
    const double memory = sums_.of(&block_cost::memory, from, to) +
                          sums_.of(&block_cost::activation, from, to) * static_cast<double>(width_ - 1 - used);
    if (memory > peers_.memory * static_cast<double>(mine)) return;
    const double seconds = stage_seconds(from, to, mine);
    const double hop = from == 0 ? 0 : peers_.hop;
    for (std::size_t i = 0; i < before.size(); ++i) {
      keep(at(to, used + mine), {before[i].sum + seconds + hop, std::max(before[i].most, seconds), from, used, i});
    }
  }

  static void keep(std::vector<point>& front, const point& p) {
    for (const point& q : front) {
      if (q.sum <= p.sum && q.most <= p.most) return;
    }
    std::erase_if(front, [&](const point& q) { return p.sum <= q.sum && p.most <= q.most; });
    front.push_back(p);
  }

  stage_sums sums_;
  std::size_t blocks_;
  template_peers peers_;
  std::size_t micro_batches_;
  std::size_t width_ = 0;
  std::vector<std::vector<point>> points_;
};

}  // namespace detail

/// Whether `pipelines` or more pipelines with sizes from `smallest` to `largest` add up to exactly `peers`.
inline bool covers(std::size_t smallest, std::size_t largest, std::size_t pipelines, std::size_t peers) {
  // x pipelines give every sum from x * smallest to x * largest, and no other.
  if (smallest == 0 || peers / smallest < pipelines) return false;
  const std::size_t x = std::max(pipelines, (peers + largest - 1) / largest);
  return x * smallest <= peers;
}

/// The templates for `peers` peers that survive `failures` at once. `micro_batches` of an iteration of one pipeline weigh
/// the slowest stage against the sum. errc::out_of_memory: too few peers for f + 1 copies of the model, with how many would
/// do; errc::invalid_argument: sizes that cannot make every number of peers, as the model has too few blocks.
inline result<template_set> make_templates(const model_cost& model, const template_peers& kind, std::size_t peers,
                                           std::size_t failures, std::size_t micro_batches) {
  if (model.blocks.empty() || kind.accelerators == 0 || micro_batches == 0 || !(kind.sharing >= 0 && kind.sharing <= 1))
    return fail(errc::invalid_argument, "templates", "need a block, an accelerator, a micro-batch, and sharing in [0, 1]");
  detail::template_cutter cutter{model, kind, micro_batches};
  template_set set{failures, {}};
  const std::size_t most = std::min(peers, model.blocks.size());  // a peer without a block has nothing to do
  for (std::size_t n = 1; n <= most; ++n) {
    if (!set.templates.empty() && n + failures * set.smallest() > peers) break;
    pipeline_template t = cutter.best(n);
    if (t.stages.empty() && !set.templates.empty()) break;
    if (!t.stages.empty()) set.templates.push_back(std::move(t));
  }
  if (set.templates.empty())
    return fail(errc::out_of_memory, "templates", "the model does not fit on " + std::to_string(most) + " peers");
  const std::size_t least = (failures + 1) * set.smallest();
  if (least > peers) {
    return fail(errc::out_of_memory, "templates",
                "to survive " + std::to_string(failures) + " failures takes " + std::to_string(least) + " peers, " +
                    std::to_string(set.smallest()) + " for each copy of the model; there are " + std::to_string(peers));
  }
  for (std::size_t n = least; n <= peers; ++n) {
    if (covers(set.smallest(), set.largest(), failures + 1, n)) continue;
    return fail(errc::invalid_argument, "templates",
                std::to_string(n) + " peers cannot be made of pipelines of " + std::to_string(set.smallest()) + " to " +
                    std::to_string(set.largest()) + "; the model has too few blocks for longer ones: give it more cuts");
  }
  return set;
}

}  // namespace causeway::inline CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_TEMPLATES_HPP
