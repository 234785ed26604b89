// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_TWO_WAY_SCHEDULES_IPP
#define CAUSEWAY_PLAN_IMPL_TWO_WAY_SCHEDULES_IPP

#include <causeway/plan/two_way_schedules.hpp>

#include <algorithm>
#include <array>
#include <deque>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

/// An empty schedule of two ways, or why there is none: ranks and micro-batches must be even.
CAUSEWAY_DECL result<schedule> start_two_ways(const std::string& name, std::uint32_t ranks, std::uint32_t micro_batches) {
  CAUSEWAY_ASSIGN(schedule s, start_schedule(ranks, 2, micro_batches));
  s.path = stage_path::two_ways;
  if (ranks % 2 == 0 && micro_batches % 2 == 0) return s;
  return fail(errc::invalid_argument, name,
              "goes both ways through an even number of ranks with an even number of micro-batches, not through " +
                  std::to_string(ranks) + " with " + std::to_string(micro_batches) + "; change them, or use one_f_one_b");
}

/// The order of one rank of Chimera, from the slots in which its operations stand where F = B = 1.
class chimera_order {
 public:
  chimera_order(const schedule& s, std::uint32_t rank) : s_{s}, rank_{rank} {}

  std::vector<operation> write() {
    for (std::uint32_t i = 0; i < first_back(s_); ++i) {
      const std::uint64_t begin = std::uint64_t{2} * s_.ranks * (i / half()) + std::uint64_t{2} * (i % half());
      add(begin, i, 0);
      add(begin, first_back(s_) + i, 1);
    }
    std::sort(slots_.begin(), slots_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<operation> order;
    for (const auto& [slot, op] : slots_) order.push_back(op);
    return order;
  }

 private:
  [[nodiscard]] std::uint32_t half() const noexcept { return s_.ranks / 2; }
  void add(std::uint64_t begin, std::uint32_t micro_batch, std::uint32_t chunk) {
    const std::uint32_t stage = virtual_stage(s_, {rank_, chunk});
    slots_.push_back({begin + stage, {work::forward, micro_batch, chunk}});
    slots_.push_back({begin + 2 * s_.ranks - 1 - stage, {work::backward, micro_batch, chunk}});
  }

  const schedule& s_;
  std::uint32_t rank_;
  std::vector<std::pair<std::uint64_t, operation>> slots_;
};

/// The order of one rank of DualPipe. A rank's near way is the one that has its shorter part behind it: 0 in the first half
/// of the ranks, 1 in the second.
class dual_pipe_order {
 public:
  dual_pipe_order(const schedule& s, std::uint32_t rank)
      : near_{rank < s.ranks / 2 ? 0U : 1U},
        inside_{std::min(rank, s.ranks - 1 - rank)},
        to_middle_{s.ranks / 2 - 1 - inside_},
        pairs_{s.micro_batches / 2 - s.ranks + inside_ + 1},
        next_forward_{0, first_back(s)},
        next_backward_{next_forward_} {}

  std::vector<operation> write() {
    const std::uint32_t far = 1 - near_;
    for (std::uint32_t i = 0; i < 2 * to_middle_; ++i) forward(near_);
    for (std::uint32_t i = 0; i <= inside_; ++i) forward(near_), forward(far);
    for (std::uint32_t i = 0; i < to_middle_; ++i) input(far), weight(), forward(far);
    for (std::uint32_t i = 0; i < pairs_; ++i) forward(near_), backward(far), forward(far), backward(near_);
    for (std::uint32_t i = 0; i < to_middle_; ++i) backward(far), forward(far), backward(near_);
    // of the 2 inside + 2 backwards that are left, the second half puts its weight gradients off
    for (std::uint32_t i = 0; i < 2 * inside_ + 2; ++i) {
      const std::uint32_t way = i % 2 == 0 ? far : near_;
      if (i <= inside_) backward(way);
      if (i > inside_) input(way);
    }
    for (std::uint32_t i = 0; i < to_middle_; ++i) weight(), input(near_);
    while (!put_off_.empty()) weight();
    return std::move(order_);
  }

 private:
  void forward(std::uint32_t chunk) { order_.push_back({work::forward, next_forward_[chunk]++, chunk}); }
  void backward(std::uint32_t chunk) { order_.push_back({work::backward, next_backward_[chunk]++, chunk}); }
  void input(std::uint32_t chunk) {
    put_off_.push_back({work::weight_gradient, next_backward_[chunk], chunk});
    order_.push_back({work::input_gradient, next_backward_[chunk]++, chunk});
  }
  void weight() {
    order_.push_back(put_off_.front());
    put_off_.pop_front();
  }

  std::uint32_t near_;
  std::uint32_t inside_;     // ranks between this one and the nearer end
  std::uint32_t to_middle_;  // and to the middle of the pipeline
  std::uint32_t pairs_;
  std::array<std::uint32_t, 2> next_forward_, next_backward_;
  std::deque<operation> put_off_;
  std::vector<operation> order_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL result<schedule> chimera(std::uint32_t ranks, std::uint32_t micro_batches) {
  CAUSEWAY_ASSIGN(schedule s, detail::start_two_ways("chimera", ranks, micro_batches));
  for (std::uint32_t r = 0; r < ranks; ++r) s.orders[r] = detail::chimera_order{s, r}.write();
  return s;
}

CAUSEWAY_DECL result<schedule> dual_pipe(std::uint32_t ranks, std::uint32_t micro_batches) {
  CAUSEWAY_ASSIGN(schedule s, detail::start_two_ways("dual_pipe", ranks, micro_batches));
  if (micro_batches / 2 < ranks) {
    return fail(errc::invalid_argument, "dual_pipe",
                "needs twice as many micro-batches as ranks, which are " + std::to_string(ranks) + ", not " +
                    std::to_string(micro_batches) + "; change them, or use chimera");
  }
  for (std::uint32_t r = 0; r < ranks; ++r) s.orders[r] = detail::dual_pipe_order{s, r}.write();
  return s;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_TWO_WAY_SCHEDULES_IPP
