// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_BY_SEGMENT_HPP
#define CAUSEWAY_TRAIN_BY_SEGMENT_HPP

// A policy of gradients where pipelines are cut in different ways: a peer has one of it for each segment of the model that
// it computes (parallel/elastic/block_segments.hpp), with a residual, factors and numbers of its own. Nobody names it: a
// trainer has it in the place of a policy where that and its parallelism need it (policy_for).

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/membership/state_image.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/elastic/block_moves.hpp>
#include <causeway/policy/executor.hpp>
#include <causeway/policy/traits.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/train/parameter_window.hpp>
#include <causeway/train/run_group.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

/// What a policy says of itself, without what is between two exchanges.
constexpr comm_traits of_segments(comm_traits t) {
  t.replays = false;
  return t;
}

/// While it is there a context shows these blocks alone; none: all that it has.
template <class Context>
class segment_in_view {
 public:
  segment_in_view(Context& ctx, const nn::block_range& blocks) : ctx_{ctx}, before_{ctx.look_at(window(ctx, blocks))} {}
  segment_in_view(const segment_in_view&) = delete;
  segment_in_view& operator=(const segment_in_view&) = delete;
  ~segment_in_view() { ctx_.look_at(std::move(before_)); }

 private:
  static parameter_window window(Context& ctx, const nn::block_range& blocks) {
    if (blocks.size() == 0) return {};
    const parameter_view all = ctx.model().parameters().view();
    return {all, parallel::blocks_in(all.values, all.segments, blocks, ctx.model().blocks())};
  }

  Context& ctx_;
  parameter_window before_;
};

/// Cost: what one `Policy` costs for each segment, one after the other.
template <class Policy>
class by_segment {
 public:
  static constexpr std::string_view name = Policy::name;
  static constexpr comm_traits traits = of_segments(Policy::traits);
  static constexpr std::uint32_t state_version = Policy::state_version + 100;

  /// `pattern` is what the others are made like; it exchanges nothing, and has what all peers hold alike.
  by_segment(Policy pattern = Policy{}) : pattern_{std::move(pattern)} {}  // NOLINT: stands for the policy

  [[nodiscard]] const Policy& pattern() const noexcept { return pattern_; }
  [[nodiscard]] by_segment another() const { return {pattern_.another()}; }

  result<void> start(auto& ctx) {
    CAUSEWAY_TRY(pattern_.start(ctx));
    return for_each(ctx, [&](Policy& p) { return p.start(ctx); });
  }

  /// Gradients, by `pass`, where each segment's blocks would be moved to by its own row.
  result<double> compute(auto& ctx, const auto& pass) { return compute_from(ctx, 0, pass); }

  /// The exchange of the first segment; those of the others come before it is over (`exchange`). Where gradients are
  /// gathered, and there are not enough: none, each adds its own.
  result<void> before_inner_step(auto& ctx) {
    const bool gathers = ctx.contribution().gathers_gradients() && !ctx.announce_samples();
    if (gathers) return for_each(ctx, [&](Policy& p) { return p.before_inner_step(ctx); });
    CAUSEWAY_TRY(ctx.enter_exchange());  // it may change the segments, so none of their policies is at work
    CAUSEWAY_EXPECT(!parts_.empty());
    const segment_in_view shown{ctx, parts_.front()->blocks};
    return parts_.front()->policy.before_inner_step(ctx);
  }
  result<void> exchange(auto& ctx, std::size_t segment) {
    const segment_in_view shown{ctx, parts_[segment]->blocks};
    return ctx.one_more([&] { return parts_[segment]->policy.before_inner_step(ctx); });
  }
  result<void> after_inner_step(auto& ctx) {
    CAUSEWAY_TRY(for_each(ctx, [&](Policy& p) { return p.after_inner_step(ctx); }));
    copy_alike(parts_.front()->policy, pattern_);
    return {};
  }
  result<void> finish(auto&) { return {}; }

  /// From now on this peer exchanges these; none: all that it holds, alone. What was kept of one that it had stays.
  result<void> take(auto& ctx, std::span<const nn::block_range> wanted) {
    const nn::block_range all{};
    if (wanted.empty()) wanted = {&all, 1};
    const auto place_of = [&](const nn::block_range& blocks) {
      return std::find_if(parts_.begin(), parts_.end(), [&](const auto& p) { return p != nullptr && p->blocks == blocks; });
    };
    for (const nn::block_range& blocks : wanted) {
      if (place_of(blocks) != parts_.end()) continue;
      CAUSEWAY_ASSIGN(std::unique_ptr<part> made, begun(ctx, blocks));
      parts_.push_back(std::move(made));
    }
    std::vector<std::unique_ptr<part>> now;
    for (const nn::block_range& blocks : wanted) now.push_back(std::move(*place_of(blocks)));
    parts_ = std::move(now);
    return {};
  }

  void serialize(auto& ar) {
    ar(pattern_);
    std::uint64_t count = parts_.size();
    ar(count);
    for (std::size_t i = 0; i < count; ++i) {  // one by one: a count without bytes behind it takes no memory
      if (i == parts_.size()) parts_.push_back(std::make_unique<part>(part{{}, pattern_.another()}));
      ar(parts_[i]->blocks.first, parts_[i]->blocks.last, parts_[i]->policy);
    }
  }

  void shared(auto& ar) { pattern_.shared(ar); }
  void adopt(auto& ctx, std::span<const float> previous) {
    pattern_.adopt(ctx, previous);
    for (const auto& p : parts_) {
      copy_alike(pattern_, p->policy);
      const segment_in_view shown{ctx, p->blocks};
      p->policy.adopt(ctx, previous);
    }
  }
  result<void> catch_up(auto& ctx) { return pattern_.catch_up(ctx); }

  [[nodiscard]] std::vector<parameter_row> block_rows() { return {}; }           // gradients leave nothing for a parameter
  result<void> divide(auto&, std::span<const parameter_segment>) { return {}; }  // `take` comes after
  [[nodiscard]] std::vector<std::span<std::byte>> memory() { return pattern_.memory(); }
  result<void> forget(auto& ctx) { return pattern_.forget(ctx); }
  [[nodiscard]] std::vector<std::span<std::byte>> memory_of(std::size_t segment) {
    return segment < parts_.size() ? parts_[segment]->policy.memory() : memory();
  }
  result<void> forget_segment(auto& ctx, std::size_t segment) {
    const segment_in_view shown{ctx, parts_[segment]->blocks};
    return parts_[segment]->policy.forget(ctx);
  }
  [[nodiscard]] bool exchanges_next() { return true; }
  /// Of results that are a step late: whether all rows wait.
  [[nodiscard]] std::optional<bool> row_waits() {
    std::optional<bool> all = pattern_.row_waits();
    if (!all) return {};
    const auto waits = [](const auto& p) { return p->policy.row_waits().value_or(false); };
    return std::all_of(parts_.begin(), parts_.end(), waits);
  }

 private:
  struct part {
    nn::block_range blocks;  ///< empty: all that this peer holds
    Policy policy;
  };

  result<void> for_each(auto& ctx, auto&& f) {
    for (const auto& p : parts_) {
      const segment_in_view shown{ctx, p->blocks};
      CAUSEWAY_TRY(f(p->policy));
    }
    return {};
  }

  /// Around the pass the blocks of all segments are moved; it sees the whole part.
  result<double> compute_from(auto& ctx, std::size_t segment, const auto& pass) {
    const segment_in_view shown{ctx, segment < parts_.size() ? parts_[segment]->blocks : nn::block_range{}};
    if (segment == parts_.size()) return pass();
    const std::function<result<double>()> next = [&] { return compute_from(ctx, segment + 1, pass); };
    return parts_[segment]->policy.compute(ctx, next);
  }

  /// As a newcomer's: with what all hold alike, and nothing else.
  result<std::unique_ptr<part>> begun(auto& ctx, const nn::block_range& blocks) {
    auto made = std::make_unique<part>(part{blocks, pattern_.another()});
    const segment_in_view shown{ctx, blocks};
    CAUSEWAY_TRY(made->policy.start(ctx));
    copy_alike(pattern_, made->policy);
    const std::uint64_t step = ctx.step();
    made->policy.adopt(ctx, {});
    ctx.resume_at(step, true);
    return made;
  }

  static void copy_alike(Policy& from, Policy& to) {
    const auto source = alike_of(from), target = alike_of(to);
    CAUSEWAY_EXPECT(source.size() == target.size());
    for (std::size_t i = 0; i < source.size(); ++i) {
      CAUSEWAY_EXPECT(source[i].size() == target[i].size());
      std::copy(source[i].begin(), source[i].end(), target[i].begin());
    }
  }
  /// What all peers hold alike, without what goes with blocks.
  static std::vector<std::span<std::byte>> alike_of(Policy& p) {
    membership::image_collector all;
    p.shared(all);
    std::vector<std::span<std::byte>> parts = all.parts();
    const auto of_blocks = p.memory();
    std::erase_if(parts, [&](std::span<std::byte> part) {
      return std::any_of(of_blocks.begin(), of_blocks.end(), [&](auto b) { return b.data() == part.data(); });
    });
    return parts;
  }

  Policy pattern_;
  std::vector<std::unique_ptr<part>> parts_;  // of the segments that this peer computes, rising
};

/// What pipelines ask of it: of each segment what they ask of one policy.
template <class Policy, class Context>
void move_with_blocks(parallel::exchange_state& state, by_segment<Policy>& comm, Context& ctx) {
  causeway::move_with_blocks(state, comm, ctx);
  state.memory = [&comm](std::size_t segment) { return comm.memory_of(segment); };
  state.forget = [&comm, &ctx](std::size_t segment) { return comm.forget_segment(ctx, segment); };
  state.take_segments = [&](std::span<const nn::block_range> ranges) { return comm.take(ctx, ranges); };
  state.exchange_segment = [&](std::size_t segment) { return comm.exchange(ctx, segment); };
}

template <class Policy, class Parallel>
  requires InSegments<Policy, Parallel>
struct policy_for<Policy, Parallel> {
  using type = by_segment<Policy>;
};

}}}  // namespace causeway::CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_TRAIN_BY_SEGMENT_HPP
