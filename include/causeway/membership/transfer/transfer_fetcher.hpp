// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_FETCHER_HPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_FETCHER_HPP

// The taking side of a state transfer: fetches what differs between the state here and a wanted one, from all its holders
// at once. Nothing that a holder says is believed: the manifest must give the wanted root, a chunk the manifest's hash.
// What has come lies beside the state until it is complete. A pure state machine: messages and times in, messages out.

#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/membership/state_image.hpp>
#include <causeway/membership/transfer/transfer_holders.hpp>
#include <causeway/membership/transfer/transfer_options.hpp>
#include <causeway/membership/transfer/transfer_wire.hpp>
#include <causeway/net/float_packing.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

/// How far a fetch is, and what came in vain.
struct fetch_progress {
  struct holder {
    net::peer_id peer = 0;
    std::uint64_t bytes = 0;  ///< of chunks that were used
    bool banned = false;
    bool gone = false;
  };

  std::uint64_t bytes_total = 0;   ///< of the chunks that differ; 0 until the manifest is here
  std::uint64_t bytes_done = 0;    ///< of those, received and right
  std::uint64_t bytes_wasted = 0;  ///< content that was wrong, came twice or was not asked for
  std::uint64_t unasked = 0;
  std::uint64_t bad = 0;      ///< wrong chunks and manifests
  std::uint64_t overdue = 0;  ///< times that a holder was silent for too long
  double bytes_per_s = 0;     ///< the highest rate over eight chunks: what the lines carry while nobody else needs them
  std::vector<holder> holders;
};

/// One for the life of a driver: it acknowledges what still arrives when a fetch is over. Thread safety: none; the fabric's
/// lock serves. Memory: the chunks that differ. Cost of a chunk: one hash and one copy of it.
class fetcher {
 public:
  enum class status : std::uint8_t { idle, running, complete, failed };

  /// `fx` must outlive this object.
  CAUSEWAY_DECL fetcher(const transfer_options& options, transfer_effects& fx);
  fetcher(const fetcher&) = delete;
  fetcher& operator=(const fetcher&) = delete;

  /// Begins to fetch `goal`, and ends the fetch before. `local` must be hashed, outlive the fetch and stay as it is
  /// until `commit`. Complete at once where nothing differs.
  CAUSEWAY_DECL void start(const state_name& goal, std::span<const net::peer_id> holders, const state_image& local,
                           time_point now);
  /// These hold the goal now. Others are not asked any more.
  CAUSEWAY_DECL void holders(std::span<const net::peer_id> peers, time_point now);
  /// Ends the fetch without a result. What has come is kept for a fetch of the same state.
  CAUSEWAY_DECL void stop();
  /// Frees what was kept.
  CAUSEWAY_DECL void forget();

  // ---- events, whether a fetch runs or not --------------------------------------------------------------------------

  CAUSEWAY_DECL void peer_up(net::peer_id peer, time_point now);
  CAUSEWAY_DECL void peer_down(net::peer_id peer, time_point now);
  /// A message of one of the kinds manifest, chunk and gone. Others are ignored.
  CAUSEWAY_DECL void message(net::peer_id from, const transfer_message& m, time_point now);
  CAUSEWAY_DECL void wake(time_point now);

  // ---- to look at ---------------------------------------------------------------------------------------------------

  [[nodiscard]] status state() const noexcept { return status_; }
  [[nodiscard]] const state_name& goal() const noexcept { return goal_; }
  /// Why it failed: errc::not_found (nobody has it any more), errc::wrong_model (the state here has another layout),
  /// errc::timeout (all holders are silent), errc::peer_lost (none within reach), errc::corrupt (all sent wrong bytes).
  [[nodiscard]] const error& failure() const noexcept { return failure_; }
  /// The newest round that a holder spoke of when it said that it does not have the goal.
  [[nodiscard]] std::uint64_t newest_seen() const noexcept { return newest_seen_; }
  CAUSEWAY_DECL [[nodiscard]] fetch_progress progress() const;
  /// The same without the holders, for those who ask often.
  [[nodiscard]] const fetch_progress& so_far() const noexcept { return counts_; }

  /// Puts what was fetched into `image`, the one given to `start`, and ends the fetch: see staging::commit. Precondition:
  /// complete.
  CAUSEWAY_DECL result<void> commit(state_image& image, thread_pool* pool = nullptr);

 private:
  using holder = transfer_holder;
  using standing = transfer_holder::standing;
  static constexpr std::uint64_t manifest_bit = transfer_holder::manifest_bit;

  // ---- holders ------------------------------------------------------------------------------------------------------

  CAUSEWAY_DECL void release_all(holder& h);
  CAUSEWAY_DECL void part_with(holder& h);
  CAUSEWAY_DECL void punish(holder& h, const std::string& what);
  CAUSEWAY_DECL void declare_overdue(holder& h, time_point now);

  // ---- messages -----------------------------------------------------------------------------------------------------

  CAUSEWAY_DECL void send(net::peer_id to, transfer_kind kind, std::uint64_t index);
  CAUSEWAY_DECL void ask(holder& h, std::uint64_t key, time_point now);
  CAUSEWAY_DECL void take_manifest(holder& h, const transfer_message& m, time_point now);
  CAUSEWAY_DECL void take_chunk(holder& h, const transfer_message& m, time_point now);
  // The chunk that a message brings, packed or not; nothing where it has other bytes.
  CAUSEWAY_DECL std::span<const std::byte> content_of(const transfer_message& m);
  CAUSEWAY_DECL void take_gone(holder& h, const transfer_message& m, time_point now);
  CAUSEWAY_DECL void note_rate(std::size_t bytes, time_point now);
  CAUSEWAY_DECL void make_plan();

  // ---- what to do next ----------------------------------------------------------------------------------------------

  CAUSEWAY_DECL void proceed(time_point now);
  CAUSEWAY_DECL bool still_possible(time_point now);
  CAUSEWAY_DECL void ask_for_manifest(time_point now);
  CAUSEWAY_DECL void fill_window(holder& h, time_point now);
  CAUSEWAY_DECL void set_wake(time_point now);
  CAUSEWAY_DECL void finish(status how);
  CAUSEWAY_DECL void fail_with(error why);

  transfer_options options_;
  transfer_effects* fx_;
  transfer_holders holders_;  // also those that are only connected
  status status_ = status::idle;
  error failure_;
  state_name goal_;
  const state_image* local_ = nullptr;
  staging staged_;
  std::vector<std::byte> unpacked_;
  std::uint64_t staged_root_ = 0;  // the state that the chunks in it are of

  manifest_assembler manifest_;
  net::peer_id manifest_from_ = 0;
  std::optional<transfer_plan> plan_;  // when the manifest is complete

  std::uint64_t serial_ = 0;
  std::uint64_t newest_seen_ = 0;
  std::optional<time_point> nobody_since_;
  time_point wakes_at_ = no_deadline;
  fetch_progress counts_;
  std::deque<std::pair<time_point, std::size_t>> arrivals_;  // of the last chunks
};

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/transfer/impl/transfer_fetcher.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_FETCHER_HPP
