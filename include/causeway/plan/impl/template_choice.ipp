// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_TEMPLATE_CHOICE_IPP
#define CAUSEWAY_PLAN_IMPL_TEMPLATE_CHOICE_IPP

#include <causeway/plan/template_choice.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

/// The least of the times at which something can end, for which `enough(time)`; infinite if none. `enough` is monotone.
template <class Enough>
  requires requires(Enough& f, double t) {
    { f(t) } -> ConvertibleTo<bool>;
  }
double least_time(std::span<const pipeline_template* const> kinds, std::size_t micro_batches, Enough enough) {
  std::vector<double> times;
  for (const pipeline_template* t : kinds) {
    for (std::size_t n = 1; n <= micro_batches; ++n) times.push_back(t->seconds(n));
  }
  std::sort(times.begin(), times.end());
  const auto found = std::partition_point(times.begin(), times.end(), [&](double t) { return !enough(t); });
  return found == times.end() ? std::numeric_limits<double>::infinity() : *found;
}

/// Which sizes add up to exactly `peers`, at least `least` of them, and do the most micro-batches within a limit.
class template_knapsack {
 public:
  CAUSEWAY_DECL template_knapsack(const template_set& set, std::size_t peers, std::size_t least)
      : set_{set}, peers_{peers}, least_{least}, best_((peers + 1) * (least + 1)), last_(best_.size()) {}

  /// The most micro-batches, or `none`.
  CAUSEWAY_DECL std::size_t solve(double limit, std::size_t most) {
    std::fill(best_.begin(), best_.end(), none);
    best_[0] = 0;
    for (std::size_t n = 1; n <= peers_; ++n) {
      for (std::size_t size = set_.smallest(); size <= std::min(n, set_.largest()); ++size) {
        const std::size_t gain = set_.of(size).within(limit, most);
        for (std::size_t k = 0; k <= least_; ++k) {
          const std::size_t before = best_[at(n - size, k)];
          if (before == none) continue;
          const std::size_t to = at(n, std::min(k + 1, least_));
          if (best_[to] != none && before + gain <= best_[to]) continue;
          best_[to] = before + gain;
          last_[to] = {size, k};
        }
      }
    }
    return best_[at(peers_, least_)];
  }

  CAUSEWAY_DECL [[nodiscard]] std::vector<std::size_t> sizes() const {
    std::vector<std::size_t> all;
    for (std::size_t n = peers_, k = least_; n > 0;) {
      const auto [size, before] = last_[at(n, k)];
      all.push_back(size);
      n -= size;
      k = before;
    }
    std::sort(all.rbegin(), all.rend());
    return all;
  }

  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

 private:
  struct step {
    std::size_t size = 0, before = 0;
  };
  [[nodiscard]] std::size_t at(std::size_t n, std::size_t k) const { return n * (least_ + 1) + k; }

  const template_set& set_;
  std::size_t peers_, least_;
  std::vector<std::size_t> best_;  // [peers used][pipelines, up to `least`]
  std::vector<step> last_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL template_choice split_batch(const template_set& set, std::vector<std::size_t> sizes,
                                          std::size_t micro_batches) {
  std::vector<const pipeline_template*> kinds;
  for (const std::size_t s : sizes) kinds.push_back(&set.of(s));
  const auto total = [&](double limit) {
    std::size_t sum = 0;
    for (const auto* k : kinds) sum += k->within(limit, micro_batches);
    return sum;
  };
  const double limit = detail::least_time(kinds, micro_batches, [&](double t) { return total(t) >= micro_batches; });
  template_choice choice{std::move(sizes), {}, 0};
  std::size_t surplus = micro_batches == 0 ? 0 : total(limit) - micro_batches;
  for (const auto* k : kinds) choice.micro_batches.push_back(micro_batches == 0 ? 0 : k->within(limit, micro_batches));
  for (; surplus > 0; --surplus) {  // the pipeline that ends last gives one back
    std::size_t last = 0;
    for (std::size_t i = 1; i < kinds.size(); ++i) {
      if (kinds[i]->seconds(choice.micro_batches[i]) > kinds[last]->seconds(choice.micro_batches[last])) last = i;
    }
    --choice.micro_batches[last];
  }
  for (std::size_t i = 0; i < kinds.size(); ++i)
    choice.seconds = std::max(choice.seconds, kinds[i]->seconds(choice.micro_batches[i]));
  return choice;
}

CAUSEWAY_DECL result<template_choice> choose_templates(const template_set& set, std::size_t peers,
                                                       std::size_t micro_batches) {
  const std::size_t least = set.failures + 1;
  if (!covers(set.smallest(), set.largest(), least, peers)) {
    return fail(errc::out_of_memory, "templates",
                std::to_string(peers) + " peers make no " + std::to_string(least) + " pipelines of " +
                    std::to_string(set.smallest()) + " to " + std::to_string(set.largest()) +
                    " peers; save a checkpoint and go on when " + std::to_string(least * set.smallest()) + " are there");
  }
  std::vector<const pipeline_template*> kinds;
  for (const pipeline_template& t : set.templates) kinds.push_back(&t);
  detail::template_knapsack knapsack{set, peers, least};
  const double limit = detail::least_time(kinds, micro_batches, [&](double t) {
    const std::size_t most = knapsack.solve(t, micro_batches);
    return most != detail::template_knapsack::none && most >= micro_batches;
  });
  knapsack.solve(micro_batches == 0 ? 0 : limit, micro_batches);
  return split_batch(set, knapsack.sizes(), micro_batches);
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_TEMPLATE_CHOICE_IPP
