// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_BLOCK_OWNERSHIP_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_BLOCK_OWNERSHIP_HPP

// The blocks of a model that a peer has in the state that the run is in. What leaves its part is kept until the run has
// taken another step, so that nothing is lost while blocks are on their way. A block that was made up because nobody had it
// any more takes along when that was, for its optimizer began then.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/optim/divisible.hpp>
#include <causeway/parallel/elastic/block_moves.hpp>
#include <causeway/parallel/elastic/block_store.hpp>
#include <causeway/parallel/elastic/step_group.hpp>
#include <causeway/parallel/tied_table.hpp>
#include <causeway/stage/recovery.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// `ctx` is the context of the trainer whose model it is. Before the first step everybody has every block, since initial
/// values follow from the seed.
class block_ownership {
 public:
  /// `store`: where the run is saved; none: nowhere.
  CAUSEWAY_DECL void begin(const nn::model_part& part, std::int64_t layers, std::optional<block_store> store);

  /// Whether the model has all that it computes or keeps up to date in `part`, in the state that the run is in.
  CAUSEWAY_DECL [[nodiscard]] bool is_ready(const nn::model_part& part, const step_record& w) const;

  /// What others are told; the id is theirs to fill in.
  CAUSEWAY_DECL [[nodiscard]] stage::present_peer described(const step_record& w, std::int64_t layers) const;

  /// Blocks whose parameters or moments are not finite are held no more, as if this peer had been lost with them. How many
  /// those were.
  std::size_t drop_spoilt(auto& ctx) {
    std::size_t dropped = 0;
    for (std::size_t b = 0; b < valid_.size(); ++b) {
      const auto block = static_cast<std::int64_t>(b);
      if (valid_[b] == 0 || !ctx.model().part().holds(block)) continue;
      bool finite = true;
      for_parts(ctx, block, [&](std::span<float> part) {
        finite = finite && std::all_of(part.begin(), part.end(), [](float v) { return std::isfinite(v); });
      });
      if (finite) continue;
      valid_[b] = 0;
      ++dropped;
    }
    return dropped;
  }

  /// Its assignment in the attempt under way; none where it is spare.
  CAUSEWAY_DECL void assigned(const nn::block_range& computes, std::uint32_t replica) noexcept;

  /// Parameters and moments of a block, and the update after which its optimizer began. Precondition: `described` names it.
  /// Errors: those of the storage, where it is not in memory.
  result<block_contents> contents(auto& ctx, std::int64_t block) {
    const auto left = attic_.find(block);
    if (left != attic_.end()) return left->second;
    if (is_stored(block) && valid_[static_cast<std::size_t>(block)] == 0) {
      const std::size_t rows = 1 + ctx.inner().moments().size();
      block_contents all(static_cast<std::size_t>(ctx.model().block_length(block)) * rows + 1);
      CAUSEWAY_TRY(store_->load(stored_->state, block, all));
      return all;
    }
    block_contents all;
    for_parts(ctx, block, [&](std::span<float> part) { all.insert(all.end(), part.begin(), part.end()); });
    all.push_back(static_cast<float>(began_[static_cast<std::size_t>(block)]));
    return all;
  }
  /// Precondition for this and `put`: the block is in the model's part.
  [[nodiscard]] std::size_t contents_size(auto& ctx, std::int64_t block) const {
    std::size_t size = 1;
    for_parts(ctx, block, [&](std::span<float> part) { size += part.size(); });
    return size;
  }
  void put(auto& ctx, std::int64_t block, const block_contents& contents) {
    auto from = contents.begin();
    for_parts(ctx, block, [&](std::span<float> part) {
      std::copy_n(from, part.size(), part.begin());
      from += static_cast<std::ptrdiff_t>(part.size());
    });
    ctx.parameters_changed();
    valid_[static_cast<std::size_t>(block)] = 1;
    began_[static_cast<std::size_t>(block)] = static_cast<std::uint64_t>(std::clamp(contents.back(), 0.0F, latest));
  }

  /// What another block can be made up of: as `contents`, without what the inner optimizer has. `ctx`: a shared_blocks.
  result<block_contents> sources(auto& ctx, std::int64_t block) {
    CAUSEWAY_ASSIGN(block_contents all, contents(ctx, block));
    const auto row = ctx.model().block_length(block);
    all.erase(all.begin() + row, all.begin() + row * static_cast<std::ptrdiff_t>(1 + ctx.inner().own));
    all.pop_back();
    return all;
  }
  [[nodiscard]] static std::size_t sources_size(auto& ctx, std::int64_t block) {
    const auto inner = ctx.inner();
    return static_cast<std::size_t>(ctx.model().block_length(block)) * (1 + inner.rows.size() - inner.own);
  }

  /// The inner optimizer knows nothing of what is held, after that update of the run's parameters.
  void begin_optimizer(auto& ctx, std::uint64_t update) {
    auto inner = ctx.inner();
    inner.rows.resize(inner.own);
    for (std::size_t b = 0; b < began_.size(); ++b) {
      const auto block = static_cast<std::int64_t>(b);
      if (!ctx.model().part().holds(block)) continue;
      for (const auto& moment : inner.rows) {
        for_pieces_of(ctx.model(), moment, block, [](std::span<float> m) { std::fill(m.begin(), m.end(), 0.0F); });
      }
      began_[b] = update;
    }
  }
  /// The update after which the optimizer of `part` began; 0: with the run.
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t began(const nn::model_part& part) const;
  /// It counts the updates since then.
  result<void> count_steps(auto& ctx, const step_record& w) {
    const std::uint64_t since = std::min(began(ctx.model().part()), w.updates);
    if (counted_from_ == since) return {};
    counted_from_ = since;
    nn::model_part same = ctx.model().part();
    return ctx.hold(std::move(same), w.updates - since);
  }

  /// The same where steps since the run's last update are given up: who comes into this peer's replica has not made them.
  void count_without(auto& ctx, const step_record& w) {
    auto& store = ctx.model().parameters();
    const std::uint64_t since = std::min(began(ctx.model().part()), w.updates);
    optim::divide(ctx.inner(), store.segments(), store.segments(), store.length(), w.updates - since);
  }

  /// The model's part becomes `part`. What leaves it is kept; what is new in it is to be `put`, but in the first step.
  result<void> change(auto& ctx, const nn::model_part& part, const step_record& w) {
    const auto layers = static_cast<std::int64_t>(valid_.size());
    if (!is_at(w)) forget();
    for (std::int64_t b = 0; b < layers; ++b) {
      const bool leaves = valid_[static_cast<std::size_t>(b)] != 0 && !part.holds(b) && ctx.model().part().holds(b);
      if (!leaves || w.step == 0) continue;
      CAUSEWAY_ASSIGN(attic_[b], contents(ctx, b));
    }
    CAUSEWAY_TRY(ctx.hold(part, w.updates));
    counted_from_ = 0;
    state_ = w.state;
    for (std::int64_t b = 0; b < layers; ++b) {
      std::uint8_t& valid = valid_[static_cast<std::size_t>(b)];
      valid = part.holds(b) && (valid != 0 || w.step == 0) ? 1 : 0;
      if (valid != 0 || !part.holds(b)) continue;
      if (const auto kept = attic_.extract(b)) {
        put(ctx, b, kept.mapped());
      } else if (is_stored(b)) {
        CAUSEWAY_ASSIGN(const block_contents saved, contents(ctx, b));
        put(ctx, b, saved);
      }
    }
    return {};
  }

  /// The run went back to a state that is saved. `found`: which of its blocks this peer's storage has.
  CAUSEWAY_DECL void went_back(const step_record& w, const saved_blocks& found);

  /// Saves a block of the state that the run is in.
  result<void> save(auto& ctx, std::int64_t block, const step_record& w) {
    CAUSEWAY_ASSIGN(const block_contents all, contents(ctx, block));
    return store_->save(w, block, all);
  }

  /// The run took a step, with these squared norms of the gradients of what is held: what this peer computes with is of the
  /// new state, the rest of the old one.
  CAUSEWAY_DECL void moved_to(std::uint64_t state, std::map<std::int64_t, double> squares);
  /// What is known of these only later, where replicas take steps of their own: how far the shared parameters moved.
  void note_squares(std::map<std::int64_t, double> squares) { squares_ = std::move(squares); }

  template <class Archive>
  void serialize(Archive& ar) {
    ar(state_, valid_, began_, counted_from_);
  }

 private:
  static constexpr float latest = 16777216.0F;  // a step that a float can tell from the next

  [[nodiscard]] bool is_at(const step_record& w) const noexcept { return state_ == w.state; }

  [[nodiscard]] bool is_stored(std::int64_t block) const noexcept { return stored_ && stored_->has(block); }
  CAUSEWAY_DECL [[nodiscard]] bool has(const step_record& w, std::int64_t block) const;

  CAUSEWAY_DECL void forget();

  template <class F>
  static void for_parts(auto& ctx, std::int64_t block, F&& f) {
    for_pieces_of(ctx.model(), ctx.parameters(), block, f);
    for (const auto& moment : ctx.inner().moments()) for_pieces_of(ctx.model(), moment, block, f);
  }

  std::optional<block_store> store_;
  std::optional<saved_blocks> stored_;  // of the state that the run is in, where it went back to one
  std::uint64_t state_ = 0;             // step_record::state that the blocks are of
  std::vector<std::uint8_t> valid_;     // by block: in the model's part, and of that state
  std::vector<std::uint64_t> began_;    // by block: the update after which its optimizer began
  std::uint64_t counted_from_ = 0;      // the same, as the inner optimizer has it
  std::map<std::int64_t, block_contents> attic_;
  std::map<std::int64_t, double> squares_;
  nn::block_range computes_{};
  std::uint32_t replica_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/elastic/impl/block_ownership.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_ELASTIC_BLOCK_OWNERSHIP_HPP
