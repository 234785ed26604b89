// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_HELD_ROUND_HPP
#define CAUSEWAY_TRAIN_HELD_ROUND_HPP

// What a member holds: the record of a round and the shared state after it, in memory, where others may fetch it from, and
// on disk; which samples that leaves for this peer; and the mean that the round was made with, as long as others need it.

#include <causeway/config/config.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/membership/ledger.hpp>
#include <causeway/membership/records.hpp>
#include <causeway/membership/round_store.hpp>
#include <causeway/membership/state_image.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/train/member_control.hpp>
#include <causeway/train/member_waits.hpp>
#include <causeway/train/run_group.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI {

// A round in memory of its own, beside the shared state: what a peer voted for before it was restarted. Others may need it.

struct spare_round {
  std::uint64_t round = 0;
  std::deque<std::vector<std::byte>> memory;
  membership::state_image image;

  /// From `store`, in pieces as large as those of `like`. Null if it is not there whole, with that hash.
  CAUSEWAY_DECL static std::unique_ptr<spare_round> load(membership::round_store& store, std::uint64_t round,
                                                         std::uint64_t hash, std::span<const std::span<std::byte>> like,
                                                         thread_pool* pool);
};

// The samples that a member was given, as of the round whose state it holds, and which of them it handed to its trainer. A
// newer commit may have given them to somebody else.

/// Thread safety: none; the trainer's thread, which hands in the newest ledger under the fabric's lock.
class held_samples {
 public:
  CAUSEWAY_DECL explicit held_samples(net::peer_id self);

  /// The peer holds the state of another round.
  void begin_round(const membership::ledger& samples) { as_of_ = samples; }
  /// The same, where the others have gone on since: the ledger after `record`, if this one is that of the round before it.
  CAUSEWAY_DECL void follow(const membership::commit_record& record);

  /// Whether the first `count` of them are this peer's after a newer commit as well.
  CAUSEWAY_DECL [[nodiscard]] bool still_ours(const membership::ledger& newest, std::uint64_t count) const;

  /// At most `count` numbers after the first `skipped`; none where others were given them by `newest`: training on them
  /// would be in vain.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::uint64_t> draw(const membership::ledger& newest, std::uint64_t skipped,
                                                              std::uint64_t count);

  /// What was drawn since the last commit, and perhaps some before it.
  [[nodiscard]] std::span<const std::uint64_t> drawn() const noexcept { return drawn_; }
  /// Whether every sample of the run is in a commit.
  [[nodiscard]] bool complete() const noexcept { return as_of_.complete(); }
  /// How many are.
  [[nodiscard]] std::uint64_t done() const noexcept { return as_of_.done(); }

 private:
  net::peer_id self_;
  membership::ledger as_of_;
  std::vector<std::uint64_t> drawn_;
};

}}  // namespace causeway::CAUSEWAY_ABI

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

/// For the trainer's thread. All that it is given must outlive it.
class held_round {
 public:
  CAUSEWAY_DECL held_round(member_control& control, member_waits& waits, const member_options& options, log_sink log,
                           io::any_storage storage, net::peer_id self);

  /// Where the shared state lies.
  CAUSEWAY_DECL void begin(shared_state state, thread_pool& pool);

  [[nodiscard]] const membership::commit_record& record() const noexcept { return record_; }
  [[nodiscard]] std::uint64_t round() const noexcept { return record_.round; }
  [[nodiscard]] shared_state& state() noexcept { return state_; }
  [[nodiscard]] const shared_state& state() const noexcept { return state_; }
  [[nodiscard]] membership::state_image& image() noexcept { return image_; }
  [[nodiscard]] held_samples& samples() noexcept { return samples_; }  ///< as of the record
  [[nodiscard]] const held_samples& samples() const noexcept { return samples_; }
  [[nodiscard]] thread_pool* pool() noexcept { return pool_; }

  /// What is in memory is the state of `record`, and others may have it. `samples`: the ledger after it, where time has
  /// passed since it was the newest: the others may have gone on meanwhile.
  CAUSEWAY_DECL void hold(const membership::commit_record& record, const std::optional<membership::ledger>& samples);

  /// The hash of what is in memory.
  CAUSEWAY_DECL std::uint64_t hash();

  /// The first of the parts, which are the shared parameters.
  CAUSEWAY_DECL [[nodiscard]] std::vector<float> parameters() const;

  // ---- on disk ------------------------------------------------------------------------------------------------------

  /// Where a round like this one is to be.
  CAUSEWAY_DECL result<void> store(std::uint64_t round, std::uint64_t root);

  /// What the last process left: the newest commit that it knew goes into memory, a vote after it is kept beside it.
  CAUSEWAY_DECL std::optional<member_control::named_round> load_stored();

  /// Whether it was there. `keep`: local progress stays as it is.
  CAUSEWAY_DECL bool from_disk(std::uint64_t round, std::uint64_t hash, bool keep);

  // ---- for others ---------------------------------------------------------------------------------------------------

  /// What is about to change and somebody is fetching; made without the lock: only this thread changes it.
  CAUSEWAY_DECL std::shared_ptr<const membership::kept_bytes> copy_for_others();

  /// Of `round`, for those who have to do it again.
  CAUSEWAY_DECL void keep_mean(std::span<const float> mean, std::uint64_t round);

 private:
  CAUSEWAY_DECL void load_spare(const member_control::named_round& vote);

  member_control* control_;
  member_waits* waits_;
  const member_options* options_;
  log_sink log_;
  membership::round_store store_;
  membership::state_image image_;
  shared_state state_;
  thread_pool* pool_ = nullptr;
  std::unique_ptr<spare_round> spare_;
  membership::commit_record record_;
  held_samples samples_;
  std::shared_ptr<const membership::kept_bytes> mean_;  // of the exchange that went through last, if others need it
  std::uint64_t mean_of_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/train/impl/held_round.ipp>
#endif

#endif  // CAUSEWAY_TRAIN_HELD_ROUND_HPP
