// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_SCHEDULES_IPP
#define CAUSEWAY_PLAN_IMPL_SCHEDULES_IPP

#include <causeway/plan/schedules.hpp>

#include <algorithm>
#include <array>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

/// Forwards ahead of the first backward, then one backward for each forward, then the backwards that remain.
CAUSEWAY_DECL std::vector<operation> one_for_one(std::uint32_t warm_up, std::uint32_t micro_batches) {
  std::vector<operation> order;
  order.reserve(std::size_t{2} * micro_batches);
  std::uint32_t forward = 0;
  while (forward < std::min(warm_up, micro_batches)) order.push_back({work::forward, forward++});
  for (std::uint32_t backward = 0; backward < micro_batches; ++backward) {
    if (forward < micro_batches) order.push_back({work::forward, forward++});
    order.push_back({work::backward, backward});
  }
  return order;
}

/// 1F1B with backwards in halves: rank r runs `times` (p - 1 - r) forwards ahead, and stays `times` r weight gradients
/// behind.
CAUSEWAY_DECL result<schedule> in_halves(std::uint32_t ranks, std::uint32_t micro_batches, std::uint32_t times) {
  CAUSEWAY_ASSIGN(schedule s, start_schedule(ranks, 1, micro_batches));
  for (std::uint32_t r = 0; r < ranks; ++r) {
    std::uint32_t done = 0;  // weight gradients
    for (const operation& op : one_for_one(times * (ranks - 1 - r), micro_batches)) {
      const bool halves = op.kind == work::backward;
      s.orders[r].push_back({halves ? work::input_gradient : op.kind, op.micro_batch});
      if (halves && op.micro_batch >= times * r) s.orders[r].push_back({work::weight_gradient, done++});
    }
    while (done < micro_batches) s.orders[r].push_back({work::weight_gradient, done++});
  }
  return s;
}

inline constexpr std::uint64_t most_operations = std::uint64_t{1} << 26U;  // of one schedule: 800 MB

CAUSEWAY_DECL result<schedule> start_schedule(std::uint32_t ranks, std::uint32_t chunks, std::uint32_t micro_batches) {
  if (ranks == 0 || chunks == 0 || micro_batches == 0)
    return fail(errc::invalid_argument, "schedule", "needs at least one rank, one chunk and one micro-batch");
  const std::uint64_t stages = std::uint64_t{ranks} * chunks;  // no overflow: both have 32 bits
  if (stages > most_operations || stages * micro_batches > most_operations / 3) {
    return fail(errc::too_large, "schedule",
                std::to_string(ranks) + " ranks of " + std::to_string(chunks) + " chunks with " +
                    std::to_string(micro_batches) + " micro-batches are too many operations; use fewer micro-batches");
  }
  schedule s{ranks, chunks, micro_batches, true, {}};
  s.orders.resize(ranks);
  return s;
}

/// Writes the order of one rank of zero_bubble_v.
class folded_order {
 public:
  folded_order(std::uint32_t ranks, std::uint32_t rank, std::uint32_t micro_batches)
      : ahead_{ranks - rank}, rank_{rank}, count_{std::max(2 * ranks - 1, micro_batches)}, kept_{micro_batches} {}

  std::vector<operation> write() {
    begin();
    while (forwards_[1] < forwards_[0] || forwards_[0] < count_) {
      if (forwards_[0] < count_) forward(0);
      backward(0);
      forward(1);
      backward(1);
    }
    end();
    return std::move(order_);
  }

 private:
  void begin() {
    for (std::uint32_t i = 0; i < 2 * ahead_ - 1; ++i) forward(0);
    for (std::uint32_t i = 0; i < rank_; ++i) {
      forward(1);
      forward(0);
    }
    for (std::uint32_t i = 0; i < ahead_; ++i) {
      forward(1);
      backward(1);
    }
  }
  void end() {
    for (std::uint32_t i = 0; i < rank_; ++i) {
      input(0);
      input(1);
    }
    for (std::uint32_t i = 0; i < ahead_; ++i) backward(0);
    for (const std::uint32_t chunk : {1U, 0U}) {
      while (weights_[chunk] < inputs_[chunk]) weight(chunk);
    }
  }
  void forward(std::uint32_t chunk) { add(work::forward, forwards_[chunk]++, chunk); }
  void input(std::uint32_t chunk) { add(work::input_gradient, inputs_[chunk]++, chunk); }
  void weight(std::uint32_t chunk) { add(work::weight_gradient, weights_[chunk]++, chunk); }
  void backward(std::uint32_t chunk) {
    input(chunk);
    weight(chunk);
  }
  /// The order is that of at least 2p - 1 micro-batches, without those that are not there.
  void add(work kind, std::uint32_t micro_batch, std::uint32_t chunk) {
    if (micro_batch < kept_) order_.push_back({kind, micro_batch, chunk});
  }

  std::uint32_t ahead_, rank_, count_, kept_;
  std::array<std::uint32_t, 2> forwards_{}, inputs_{}, weights_{};
  std::vector<operation> order_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL result<schedule> gpipe(std::uint32_t ranks, std::uint32_t micro_batches) {
  CAUSEWAY_ASSIGN(schedule s, detail::start_schedule(ranks, 1, micro_batches));
  for (auto& order : s.orders) order = detail::one_for_one(micro_batches, micro_batches);
  return s;
}

CAUSEWAY_DECL result<schedule> forwards_only(std::uint32_t ranks, std::uint32_t chunks, std::uint32_t micro_batches,
                                             stage_path path) {
  CAUSEWAY_ASSIGN(schedule s, detail::start_schedule(ranks, chunks, micro_batches));
  s.path = path;
  for (auto& order : s.orders) {
    for (std::uint32_t c = 0; c < chunks; ++c) {
      for (std::uint32_t m = 0; m < micro_batches; ++m) {
        if (goes_through(s, m, c)) order.push_back({work::forward, m, c});
      }
    }
  }
  return s;
}

CAUSEWAY_DECL result<schedule> one_f_one_b(std::uint32_t ranks, std::uint32_t micro_batches) {
  CAUSEWAY_ASSIGN(schedule s, detail::start_schedule(ranks, 1, micro_batches));
  for (std::uint32_t r = 0; r < ranks; ++r) s.orders[r] = detail::one_for_one(ranks - 1 - r, micro_batches);
  return s;
}

CAUSEWAY_DECL result<schedule> interleaved(std::uint32_t ranks, std::uint32_t chunks, std::uint32_t micro_batches) {
  CAUSEWAY_ASSIGN(schedule s, detail::start_schedule(ranks, chunks, micro_batches));
  if (micro_batches % ranks != 0) {
    return fail(errc::invalid_argument, "interleaved",
                "needs a number of micro-batches that the " + std::to_string(ranks) + " ranks divide, not " +
                    std::to_string(micro_batches) + "; change it, or use one_f_one_b");
  }
  const std::uint32_t units = chunks * micro_batches;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    // Twice the way to the last rank: a micro-batch comes back from its last chunk as it went there. With one chunk the
    // forwards ahead of 1F1B suffice.
    const std::uint32_t ahead = chunks == 1 ? ranks - 1 - r : 2 * (ranks - 1 - r) + (chunks - 1) * ranks;
    const auto unit = [&](work kind, std::uint32_t k) {
      const std::uint32_t chunk = k / ranks % chunks;
      const std::uint32_t micro_batch = k / (ranks * chunks) * ranks + k % ranks;
      return operation{kind, micro_batch, kind == work::forward ? chunk : chunks - 1 - chunk};
    };
    for (const operation& op : detail::one_for_one(ahead, units)) s.orders[r].push_back(unit(op.kind, op.micro_batch));
  }
  return s;
}

CAUSEWAY_DECL result<schedule> zero_bubble(std::uint32_t ranks, std::uint32_t micro_batches) {
  return detail::in_halves(ranks, micro_batches, 1);
}

CAUSEWAY_DECL result<schedule> zero_bubble_h2(std::uint32_t ranks, std::uint32_t micro_batches) {
  return detail::in_halves(ranks, micro_batches, 2);
}

CAUSEWAY_DECL result<schedule> zero_bubble_v(std::uint32_t ranks, std::uint32_t micro_batches) {
  CAUSEWAY_ASSIGN(schedule s, detail::start_schedule(ranks, 2, micro_batches));
  s.path = stage_path::folded;
  for (std::uint32_t r = 0; r < ranks; ++r) s.orders[r] = detail::folded_order{ranks, r, micro_batches}.write();
  return s;
}

CAUSEWAY_DECL result<schedule> asynchronous(std::uint32_t ranks, std::uint32_t micro_batches) {
  CAUSEWAY_ASSIGN(schedule s, one_f_one_b(ranks, micro_batches));
  s.flushes = false;
  return s;
}

CAUSEWAY_DECL schedule with_recompute(const schedule& s) {
  schedule out = s;
  for (auto& order : out.orders) {
    const std::vector<operation> before = std::exchange(order, {});
    for (std::size_t i = 0; i < before.size(); ++i) {
      const operation& op = before[i];
      const bool fresh = i > 0 && before[i - 1] == operation{work::forward, op.micro_batch, op.chunk};
      if (gives_input_gradient(op.kind) && !fresh) order.push_back({work::recompute, op.micro_batch, op.chunk});
      order.push_back(op);
    }
  }
  return out;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_SCHEDULES_IPP
