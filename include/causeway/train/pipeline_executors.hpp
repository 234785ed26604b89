// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_PIPELINE_EXECUTORS_HPP
#define CAUSEWAY_TRAIN_PIPELINE_EXECUTORS_HPP

// What runs pipelines whose peers come and go. A program says parallel::pipeline and fault::quorum<>, and how
// peers exchange; which class computes the steps follows: one for gradients that are summed over all, one for replicas that
// take steps of their own.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/parallel/async_pipeline.hpp>
#include <causeway/parallel/elastic_pipeline.hpp>
#include <causeway/parallel/local_async_pipeline.hpp>
#include <causeway/parallel/local_pipeline.hpp>
#include <causeway/parallel/pipeline.hpp>
#include <causeway/policy/executor.hpp>
#include <causeway/stage/recovery.hpp>
#include <causeway/train/pipeline_group.hpp>

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI {

namespace detail {

/// The group of elastic pipelines over `env.group` takes its place there. One that is given already stays.
void make_step_group(auto& env) {
  const bool wanted = env.group && env.group->steps() == nullptr;  // without any, the executor says so when it starts
  if (wanted) env.group = std::make_shared<pipeline_group>(std::move(env.group));
}

/// What lays pipelines out. Where no recovery was given they regroup, in pipeline_options::ranks stages (0: 2).
template <class Recovery>
Recovery recovery_from(Recovery& given, const parallel::pipeline_options&) {
  return std::move(given);
}
inline stage::recovery::regroup recovery_from(fault::no_recovery&, const parallel::pipeline_options& o) {
  return o.ranks == 0 ? stage::recovery::regroup{} : stage::recovery::regroup{o.ranks};
}
template <class Recovery>
using recovery_for = decltype(recovery_from(std::declval<Recovery&>(), std::declval<const parallel::pipeline_options&>()));

/// Under fault::quorum a recovery lays pipelines out anew all the time.
template <class Recovery>
result<void> check_cut(const parallel::pipeline_options& o) {
  const bool may_say_ranks = o.ranks == 0 || std::is_same_v<Recovery, fault::no_recovery>;
  if (may_say_ranks && o.placement.empty() && o.cuts.empty() && !o.random_routes) return {};
  return fail(
      errc::invalid_argument, "pipeline under fault::quorum",
      "the recovery says which peer has which blocks: leave out pipeline_options::placement, cuts and random_routes, "
      "and give the number of stages to the recovery");
}

/// elastic_pipeline_options or local_pipeline_options.
template <class Options>
Options options_of(std::int64_t micro_batches, const fault::quorum_options& o) {
  Options made{.micro_batches = micro_batches, .storage = o.storage, .folder = o.folder, .steps = o.steps};
  if (o.store_every) made.store_every = *o.store_every;
  return made;
}

}  // namespace detail

/// Gradients of every step are summed, or exchanged, by parallel::elastic_pipeline; else replicas take steps of their own,
/// in parallel::local_pipeline. `environment::group` is a member of all peers, whose options have no quota, no budget and
/// `enters_afresh`. pipeline_options::micro_batches are those of a global batch.
template <class Schedule, class Codec, class Comm, class Recovery>
struct executor<parallel::pipeline<Schedule, Codec>, Comm, fault::quorum<Recovery>> {
  using parallel_type = parallel::pipeline<Schedule, Codec>;
  static constexpr bool sums = Comm::traits.exchanges_gradients;
  using options_type = std::conditional_t<sums, parallel::elastic_pipeline_options, parallel::local_pipeline_options>;
  using type = std::conditional_t<sums, parallel::elastic_pipeline<detail::recovery_for<Recovery>, Schedule, Codec>,
                                  parallel::local_pipeline<detail::recovery_for<Recovery>, Schedule, Codec>>;

  static result<void> check(const parallel_type& p, const fault::quorum<Recovery>&) {
    return detail::check_cut<Recovery>(p.options());
  }
  static type make(parallel_type&& p, fault::quorum<Recovery>& f, auto& env) {
    detail::make_step_group(env);
    const auto& o = p.options();
    return type{detail::options_of<options_type>(o.micro_batches, f.options), detail::recovery_from(f.recovery, o),
                std::move(p.order()), std::move(p.codec())};
  }
};

namespace detail {

template <class Parallel>
inline constexpr bool is_laid_out_anew = false;
template <class Layout, class Schedule, class Codec>
inline constexpr bool is_laid_out_anew<parallel::elastic_pipeline<Layout, Schedule, Codec>> = true;
template <class Layout, class Order, class Codec>
inline constexpr bool is_laid_out_anew<parallel::local_pipeline<Layout, Order, Codec>> = true;

}  // namespace detail

/// Made by its own name, as presets do, it runs itself, over `environment::group` as above.
template <class Parallel, class Comm, class Recovery>
  requires detail::is_laid_out_anew<Parallel>
struct executor<Parallel, Comm, fault::quorum<Recovery>> {
  using type = Parallel;

  static result<void> check(const type&, const fault::quorum<Recovery>&) { return {}; }
  static type make(type&& p, fault::quorum<Recovery>&, auto& env) {
    detail::make_step_group(env);
    return std::move(p);
  }
};

/// Replicas take steps of their own, without a flush between two exchanges.
template <class Codec, class Comm, class Recovery>
struct executor<parallel::async_pipeline<Codec>, Comm, fault::quorum<Recovery>> {
  using parallel_type = parallel::async_pipeline<Codec>;
  using type = parallel::local_async_pipeline<detail::recovery_for<Recovery>, Codec>;

  static result<void> check(const parallel_type& p, const fault::quorum<Recovery>&) {
    return detail::check_cut<Recovery>(p.options().cut);
  }
  static type make(parallel_type&& p, fault::quorum<Recovery>& f, auto& env) {
    detail::make_step_group(env);
    const auto& o = p.options();
    return type{detail::options_of<parallel::local_pipeline_options>(o.cut.micro_batches, f.options),
                detail::recovery_from(f.recovery, o.cut),
                parallel::streamed_steps{{.stashing = o.stashing, .ahead = o.ahead}}, std::move(p.codec())};
  }
};

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_PIPELINE_EXECUTORS_HPP
