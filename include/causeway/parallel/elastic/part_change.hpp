// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_PART_CHANGE_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_PART_CHANGE_HPP

// From what a peer has to what its assignment in a layout holds: what others need of it leaves, what it needs comes, and
// what nobody has is made up.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/elastic/block_moves.hpp>
#include <causeway/parallel/elastic/block_ownership.hpp>
#include <causeway/parallel/elastic/interpolated_blocks.hpp>
#include <causeway/parallel/elastic/peer_inventory.hpp>
#include <causeway/parallel/elastic/step_group.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// How blocks travel.
struct block_roads {
  net::any_transport& transport;
  net::message_id moves;    ///< of blocks
  net::message_id sources;  ///< of what lost blocks are made up of
  time_point deadline = no_deadline;
};

/// Of one peer, in one attempt; all that it is given must outlive it. `made`: what lost blocks are made of.
class part_change {
 public:
  CAUSEWAY_DECL part_change(block_ownership& held, const step_record& record, const cluster_inventory& inventory,
                            const stage::layout& to, std::vector<stage::made_up_block> made, const block_roads& roads);

  /// Whether anything moves or is made up, at whatever peer.
  [[nodiscard]] bool concerns_anybody() const noexcept { return !moves_.empty() || !made_.empty(); }

  /// What others need is copied before this peer's own part becomes `part`, unless it is `ready`. errc::non_finite: a peer
  /// sent what are no parameters.
  result<void> run(auto& ctx, const nn::model_part& part, bool ready) {
    CAUSEWAY_TRY(copy_out(ctx));
    if (!ready) CAUSEWAY_TRY(held_.change(ctx, part, record_));
    CAUSEWAY_TRY(receive_moves(ctx));
    if (made_.empty()) return {};
    CAUSEWAY_TRY(receive_sources(ctx));
    if (!source_inward_.empty()) make_up(ctx, part);  // else it is spare, whatever it had
    return {};
  }

  /// Blocks that came, and such that were made up here.
  [[nodiscard]] std::uint64_t received() const noexcept { return inward_.size(); }
  [[nodiscard]] std::uint64_t made_up_here() const noexcept { return made_up_; }

 private:
  using by_block = std::map<std::int64_t, block_contents>;

  result<void> copy_out(auto& ctx) {
    for (const block_move& m : moves_) {
      if (m.from != inventory_.self) continue;
      CAUSEWAY_ASSIGN(outward_[m.block], held_.contents(ctx, m.block));
    }
    for (const block_move& m : sources_) {
      if (m.from != inventory_.self) continue;
      CAUSEWAY_ASSIGN(source_outward_[m.block], held_.sources(ctx, m.block));
    }
    return {};
  }

  result<void> receive_moves(auto& ctx) {
    for (const block_move& m : moves_) {
      if (m.to == inventory_.self) inward_[m.block].resize(held_.contents_size(ctx, m.block));
    }
    CAUSEWAY_TRY(exchange(roads_.moves, moves_, outward_, inward_));
    for (const auto& [block, contents] : inward_) held_.put(ctx, block, contents);
    return {};
  }

  result<void> receive_sources(auto& ctx) {
    for (const block_move& m : sources_) {
      if (m.to != inventory_.self) continue;
      block_contents& room = source_inward_[m.block];
      if (m.from == inventory_.self) room = source_outward_.at(m.block);
      room.resize(held_.sources_size(ctx, m.block));
    }
    std::vector<block_move> between = sources_;
    std::erase_if(between, [](const block_move& m) { return m.from == m.to; });
    return exchange(roads_.sources, between, source_outward_, source_inward_);
  }

  // A stage has one inner optimizer: where blocks of it are made up, it begins anew for all of them. What the communication
  // policy keeps is made up as the parameters are.
  void make_up(auto& ctx, const nn::model_part& part) {
    for (const stage::made_up_block& m : made_) {
      if (!part.holds(m.block)) continue;
      const std::size_t row = length_of(ctx, m.block);
      const auto inner = ctx.inner();
      block_contents all;
      for (std::size_t r = 0; r <= inner.rows.size() - inner.own; ++r) {
        const block_contents one = made_up(m, row, source_row(ctx, m.before, r), source_row(ctx, m.behind, r));
        all.insert(all.end(), one.begin(), one.end());
        if (r == 0) all.resize(row * (1 + inner.own));
      }
      all.push_back(0);
      held_.put(ctx, m.block, all);
      ++made_up_;
    }
    if (made_up_ > 0) held_.begin_optimizer(ctx, record_.updates);
  }

  [[nodiscard]] std::span<const float> source_row(auto& ctx, std::int64_t block, std::size_t row) const {
    const std::size_t length = length_of(ctx, block);
    return std::span{source_inward_.at(block)}.subspan(row * length, length);
  }
  [[nodiscard]] static std::size_t length_of(auto& ctx, std::int64_t block) {
    return static_cast<std::size_t>(ctx.model().block_length(block));
  }

  CAUSEWAY_DECL result<void> exchange(const net::message_id& id, const std::vector<block_move>& moves,
                                      const by_block& outward, by_block& inward);

  block_ownership& held_;
  const step_record& record_;
  const cluster_inventory& inventory_;
  block_roads roads_;
  std::vector<block_move> moves_;
  std::vector<stage::made_up_block> made_;
  std::vector<block_move> sources_;
  by_block outward_, inward_, source_outward_, source_inward_;
  std::uint64_t made_up_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/elastic/impl/part_change.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_ELASTIC_PART_CHANGE_HPP
