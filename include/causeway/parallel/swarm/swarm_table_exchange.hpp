// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_SWARM_TABLE_EXCHANGE_HPP
#define CAUSEWAY_PARALLEL_SWARM_SWARM_TABLE_EXCHANGE_HPP

// A token table that is the output layer too, on its way between the two ends of a swarm: who lacks it asks a peer that has
// it, piece by piece, and asks another from the beginning when that one is lost. A state machine without network and clock;
// who gives needs no more than a function, so a peer gives also while it computes, waits, or has finished.

#include <causeway/config/config.hpp>
#include <causeway/net/codec.hpp>
#include <causeway/net/fabric.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

namespace swarm_wire {

inline constexpr std::size_t table_piece_values = std::size_t{1} << 16U;
static_assert(table_piece_values * sizeof(float) <= net::max_post_bytes / 2);

/// To the other end of the model: a piece of what it has of the table in a step. The first stage gives its part of the
/// gradient, the last the table as the step left it.
struct table_request {
  std::uint64_t step = 0;
  std::uint32_t piece = 0;

  void fields(auto& wire) { wire(step, piece); }
};

/// The answer.
struct table_piece {
  std::uint64_t step = 0;
  std::uint32_t piece = 0;
  std::uint64_t version = 0;    ///< pieces of another version are of another sum
  std::vector<float> values{};  ///< finite; none: the sender has nothing of that step

  void fields(auto& wire) { wire(step, piece, version, blob{values}); }

 private:
  struct blob {
    std::vector<float>& values;

    void put(net::byte_writer& out) const { out.put_bytes(std::as_bytes(std::span{values})); }
    CAUSEWAY_DECL void get(net::byte_reader& in) const;
  };
};

}  // namespace swarm_wire

/// The answer of a peer that has `table`; empty if it has none of that step.
CAUSEWAY_DECL [[nodiscard]] swarm_wire::table_piece answer(const swarm_wire::table_request& asked,
                                                           std::span<const float> table, std::uint64_t version);

/// Thread safety: none; the fabric's lock serves. Memory: one table. 2 MiB are under way.
class swarm_table_fetch {
 public:
  static constexpr std::uint32_t window = 8;  // pieces asked for and not here

  /// `length` values of that step. What is there of it already stays.
  CAUSEWAY_DECL void want(std::uint64_t step, std::size_t length);
  /// What is there of another step is of no use.
  CAUSEWAY_DECL void keep_only(std::uint64_t step);

  /// Wanted, not here, and nobody is asked.
  [[nodiscard]] bool looks_for_a_source() const noexcept { return wanted_ && !complete() && source_ == 0; }
  /// Asks that peer from the beginning: sums that two peers have may be rounded differently.
  CAUSEWAY_DECL void ask(net::peer_id from);
  /// To whom `take_requests` are to be sent.
  [[nodiscard]] net::peer_id source() const noexcept { return source_; }
  CAUSEWAY_DECL [[nodiscard]] std::vector<swarm_wire::table_request> take_requests();

  /// True: with this piece it is whole. What was not asked for, or is there already, is passed over.
  CAUSEWAY_DECL bool take(net::peer_id from, const swarm_wire::table_piece& p);
  CAUSEWAY_DECL void lost(net::peer_id peer);
  /// Whether it had nothing, though it said otherwise; until `forgive`.
  CAUSEWAY_DECL [[nodiscard]] bool refused(net::peer_id peer) const;
  void forgive() { refused_.clear(); }

  [[nodiscard]] bool has(std::uint64_t step) const noexcept { return wanted_ && step_ == step && complete(); }
  /// Precondition: it has them.
  [[nodiscard]] std::span<const float> values() const noexcept { return values_; }

 private:
  CAUSEWAY_DECL [[nodiscard]] std::uint32_t pieces() const noexcept;
  CAUSEWAY_DECL [[nodiscard]] std::size_t size_of(std::uint32_t piece) const noexcept;
  [[nodiscard]] bool complete() const noexcept { return got_ > 0 && got_ == pieces(); }

  bool wanted_ = false;
  std::uint64_t step_ = 0;
  std::vector<float> values_;
  std::vector<bool> there_;
  net::peer_id source_ = 0;
  std::uint64_t version_ = 0;
  std::uint32_t got_ = 0, next_ = 0;
  std::set<net::peer_id> refused_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/swarm/impl/swarm_table_exchange.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_SWARM_SWARM_TABLE_EXCHANGE_HPP
