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

#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

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
  CAUSEWAY_DECL [[nodiscard]] double seconds(std::size_t micro_batches) const noexcept;
  /// How many micro-batches are through in `limit` seconds, at most `most`. The inverse of `seconds`.
  CAUSEWAY_DECL [[nodiscard]] std::size_t within(double limit, std::size_t most) const noexcept;
};

/// Templates of consecutive sizes.
struct template_set {
  std::size_t failures = 0;  ///< f
  std::vector<pipeline_template> templates;

  [[nodiscard]] std::size_t smallest() const { return templates.front().peers; }  ///< n0
  [[nodiscard]] std::size_t largest() const { return templates.back().peers; }
  [[nodiscard]] bool has(std::size_t peers) const { return peers >= smallest() && peers <= largest(); }
  CAUSEWAY_DECL [[nodiscard]] const pipeline_template& of(std::size_t peers) const;
};

namespace detail {

class template_cutter {
 public:
  CAUSEWAY_DECL template_cutter(const model_cost& model, const template_peers& peers, std::size_t micro_batches);

  /// The best template of `n` peers; no stages: the model does not fit, or has too few blocks.
  CAUSEWAY_DECL [[nodiscard]] pipeline_template best(std::size_t n);

 private:
  struct point {
    double sum = 0;
    double most = 0;
    std::size_t block = 0, used = 0, before = 0;  // where the last stage begins, and the point it was added to
  };

  std::vector<point>& at(std::size_t block, std::size_t used) { return points_[block * width_ + used]; }

  CAUSEWAY_DECL [[nodiscard]] double stage_seconds(std::size_t from, std::size_t to, std::size_t accelerators) const;

  /// Blocks [0, b) on exactly u accelerators, for all b and u; a peer's next stage never reaches into the next peer.
  CAUSEWAY_DECL void fill(std::size_t n);

  CAUSEWAY_DECL void add_stage(std::size_t from, std::size_t to, std::size_t used, std::size_t mine);

  CAUSEWAY_DECL static void keep(std::vector<point>& front, const point& p);

  stage_sums sums_;
  std::size_t blocks_;
  template_peers peers_;
  std::size_t micro_batches_;
  std::size_t width_ = 0;
  std::vector<std::vector<point>> points_;
};

}  // namespace detail

/// Whether `pipelines` or more pipelines with sizes from `smallest` to `largest` add up to exactly `peers`.
CAUSEWAY_DECL bool covers(std::size_t smallest, std::size_t largest, std::size_t pipelines, std::size_t peers);

/// The templates for `peers` peers that survive `failures` at once. `micro_batches` of an iteration of one pipeline weigh
/// the slowest stage against the sum. errc::out_of_memory: too few peers for f + 1 copies of the model, with how many would
/// do; errc::invalid_argument: sizes that cannot make every number of peers, as the model has too few blocks.
CAUSEWAY_DECL result<template_set> make_templates(const model_cost& model, const template_peers& kind, std::size_t peers,
                                                  std::size_t failures, std::size_t micro_batches);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/templates.ipp>
#endif

#endif  // CAUSEWAY_PLAN_TEMPLATES_HPP
