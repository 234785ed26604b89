// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_MEMBER_CONTROL_HPP
#define CAUSEWAY_TRAIN_MEMBER_CONTROL_HPP

// The part of a member that works while its trainer computes: hands the fabric's events to the membership protocol and to
// the transfer of state, and carries out what they want done. Everything here runs with the fabric's lock held.

#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/membership/durable_record.hpp>
#include <causeway/membership/history.hpp>
#include <causeway/membership/protocol.hpp>
#include <causeway/membership/state_image.hpp>
#include <causeway/membership/transfer/transfer.hpp>
#include <causeway/net/deadline.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/train/write_behind.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI {

template <class Whole>
class basic_member_control;
using member_control = basic_member_control<void>;

struct member_options {
  membership::options protocol;   ///< run id, expected peers, smallest quorum, samples per round and in all
  std::vector<std::string> dial;  ///< addresses of live peers; none: found a new run, unless the disk knows one
  std::string folder = "member";  ///< on the storage
  std::uint32_t store_every = 1;  ///< rounds between copies of the shared state on disk; 0: none, a vote keeps it in memory
  net::arrival_options exchange{};               ///< how long an exchange may take, learned from earlier ones
  duration say_after = std::chrono::seconds{5};  ///< a wait longer than this is logged, then at double intervals
  /// How long a newcomer may find nobody of the run, before it ends with errc::unreachable; ten times as long once it has
  /// been in. 0: who has been in waits for ever.
  duration patience{0};
  /// Where `patience` is 0, that of a newcomer: it has nothing that could get lost, and the run may be over. 0: for ever.
  duration newcomer_patience = std::chrono::minutes{10};
  /// A member of the last round known waits for the others for ever, as long as there is something to train.
  bool members_wait = true;
  /// What this peer has for a round is worth nothing on top of a later one: when it has to fetch a state instead of taking
  /// part, `enter` ends with errc::cancelled, and the step with verdict::commit of the others' round.
  bool enters_afresh = false;
  /// Asked, with the fabric's lock held, while `enter` waits for an exchange: true ends it with errc::cancelled, because
  /// something else has to be done first. For work that others need before they can come.
  std::function<bool()> called_away{};
  /// A number that others cannot guess, from the system's source of such numbers: it protects what this peer gives away
  /// from receipts for what never arrived. 0: made of the id and the time, which is less.
  std::uint64_t secret = 0;
  /// What happens, for a checker. With the fabric's lock held.
  std::function<void(const membership::event&)> journal{};
  /// Control messages whose first byte is 0x90 or more belong to the program. With the fabric's lock held.
  std::function<void(net::peer_index link, std::span<const std::byte>)> other_messages{};
  /// Called with the name of each point of a round that is passed: see docs/design/membership.md.
  std::function<void(std::string_view point)> passing{};
};

template <class Whole>
class basic_member_control final : net::fabric_events, membership::effects, membership::transfer_effects {
 public:
  static result<std::unique_ptr<member_control>> make(std::shared_ptr<net::fabric> fabric, io::any_storage storage,
                                                      const member_options& options, log_sink log);

  /// A round and the name of its state.
  struct named_round {
    std::uint64_t round = 0;
    std::uint64_t hash = 0;
  };

  /// What this peer knows to be committed, and what it voted for afterwards, as of its last process.
  [[nodiscard]] std::optional<named_round> remembered() const;
  [[nodiscard]] std::optional<named_round> voted_for() const;

  // ---- with the lock held -------------------------------------------------------------------------------------------

  /// Begins to take part. `stored`: what the disk had; `initial`: the hash of the state in memory.
  void begin(const std::optional<named_round>& stored, std::uint64_t initial);

  void ready(std::uint64_t round, std::uint64_t parent, std::uint64_t samples);
  void gather(std::uint64_t round_samples) noexcept { protocol_.gather(round_samples); }
  void announce(std::uint64_t round, std::uint64_t parent, std::uint64_t samples);
  [[nodiscard]] bool completed(membership::ballot at);
  void voted(membership::ballot at, std::uint64_t round, std::uint64_t hash);
  void failed(membership::ballot at, errc why, const std::vector<net::peer_id>& suspects);
  void unusable(membership::ballot at);
  void holds(std::uint64_t round, std::uint64_t hash);
  void leave();

  /// Whether the record on disk says what this peer knows, or the disk has failed.
  [[nodiscard]] bool written() const noexcept { return behind_.over(); }
  [[nodiscard]] const membership::situation& now_what() const noexcept { return protocol_.now_what(); }
  [[nodiscard]] const membership::ledger& ledger() const noexcept { return protocol_.samples(); }
  [[nodiscard]] std::vector<std::byte> record_of(std::uint64_t round, std::uint64_t hash) const;
  /// Why a peer that has found nobody for `patience` should wait no longer; none while it should, or patience is 0.
  [[nodiscard]] std::optional<error> alone_too_long(duration patience) const;

  /// The links of a view's members in their order. All but our own must have been met.
  [[nodiscard]] std::vector<net::peer_index> links_of(const membership::view& view) const;

  /// Members of a view without a connection to this peer.
  [[nodiscard]] std::vector<net::peer_id> missing_of(const membership::view& view) const;

  [[nodiscard]] bool meets(net::peer_id id) const;

  /// Starts to connect to the members of a view that are missing.
  void dial_missing(const membership::view& view);

  /// Whether a dial since then was in vain.
  [[nodiscard]] bool dialled_in_vain() const noexcept { return !refused_.empty(); }

  // ---- the shared state ---------------------------------------------------------------------------------------------

  /// Others may fetch it from now on. `image` must be hashed and stay as it is until withdrawn.
  void offer(std::uint64_t round, const membership::state_image& image);
  /// The memory of what is offered is about to change. What others fetch of it goes on from a copy, if there is one.
  void withdraw();
  [[nodiscard]] bool offers() const noexcept { return offered_.has_value(); }
  /// What is offered is read from there from now on: its memory is about to go. Precondition: offers().
  void offer_from(std::shared_ptr<const membership::kept_bytes> copy);
  /// Whether a copy must be made before `withdraw`.
  [[nodiscard]] bool needs_copy() const { return offered_ && transfer_.keeping.needs_copy(*offered_); }
  void copied(std::shared_ptr<const membership::kept_bytes> bytes);
  /// Whether others will want to know what rounds exchanged.
  [[nodiscard]] bool keeps_means() const noexcept { return transfer_.keeping.any(); }
  void add_mean(std::uint64_t round, std::shared_ptr<const membership::kept_bytes> mean);
  void forget_means() { transfer_.keeping.clear(); }
  /// This peer exchanges data, or no longer.
  void exchanging(bool yes);
  /// Beside the other: a vote of the last process, which may be the only copy there is.
  void offer_spare(std::uint64_t round, const membership::state_image& image) { transfer_.giving.offer(round, image); }
  void withdraw_spare(std::uint64_t round) { transfer_.giving.withdraw(round); }

  /// `keep`: the holders are asked to keep it, and what later rounds exchange, until `end_catch_up`.
  void start_fetch(std::uint64_t round, std::uint64_t hash, const membership::state_image& image, bool keep);
  void start_mean(std::uint64_t round, std::uint64_t root, const membership::state_image& image);
  [[nodiscard]] membership::kept_for_us& kept() noexcept { return transfer_.kept; }
  void stop_fetch() { transfer_.taking.stop(); }

  /// Asks the leader to hold the next round back. `time_was_given` says when it does.
  void ask_for_time(const membership::transfer_need& needs);
  [[nodiscard]] bool time_was_given() const noexcept { return time_given_; }
  [[nodiscard]] membership::fetcher& fetch() noexcept { return transfer_.taking; }

  /// For the checker: what the trainer did.
  [[nodiscard]] detail::member_journal& journal() noexcept { return journal_; }

  void post(net::peer_id to, std::vector<std::byte> message, bool bulk);

  [[nodiscard]] std::string describe() const;

  void attach() { fabric_->attach(this); }
  /// In an orderly end what others are to hear is written and said first.
  void detach();

 private:
  basic_member_control(std::shared_ptr<net::fabric> fabric, io::any_storage storage, const member_options& options,
                       log_sink log, membership::durable_record record);

  detail::write_behind::outlets outlets();

  [[nodiscard]] membership::options protocol_options() const;
  [[nodiscard]] membership::transfer_options transfer_options() const;

  // ---- net::fabric_events -------------------------------------------------------------------------------------------

  void on_up(net::peer_index link, net::peer_id id, const std::string& address) override;
  void on_down(net::peer_index link, const error& why) override;
  void on_unreachable(const std::string& address, const error& why) override;
  void on_control(net::peer_index link, std::span<const std::byte> message) override;
  void on_wake() override;

  // ---- membership::effects ------------------------------------------------------------------------------------------

  void send(net::peer_id to, std::vector<std::byte> message) override;
  void dial(const std::string& address) override { fabric_->dial(address); }
  void drop(net::peer_id peer, const std::string& why) override;
  bool persist(const membership::durable_record& record) override;
  /// Without the lock.
  bool write(const std::vector<std::byte>& record);
  void wake_at(time_point when) override { protocol_wakes_ = when; }
  void give_time(net::peer_id peer, duration how_long) override;
  void note(const membership::event& e) override;
  void log(severity level, std::string_view text) override { log_(level, text); }

  // ---- membership::transfer_effects ---------------------------------------------------------------------------------

  void transfer_send(net::peer_id to, std::vector<std::byte> message) override;
  void transfer_wake_at(time_point when) override { transfer_wakes_ = when; }
  void transfer_log(severity level, std::string_view text) override { log_(level, text); }

  result<void> take_transfer(net::peer_id from, std::span<const std::byte> message);

  /// Of many peers a newcomer has met only a few, and those who hold the state may be others.
  void dial_holders();

  [[nodiscard]] std::vector<net::peer_id> holders() const;

  // After every event: data of attempts that are over is refused, a fetch learns who can help, the next wake-up is set.
  void after_event();

  std::shared_ptr<net::fabric> fabric_;
  io::any_storage storage_;
  member_options options_;
  log_sink log_;
  detail::write_behind behind_;
  detail::member_journal journal_;
  membership::protocol protocol_;
  membership::state_transfer transfer_;
  std::map<net::peer_id, net::peer_index> links_;
  std::map<net::peer_index, net::peer_id> peers_;
  std::optional<std::uint64_t> offered_;
  std::string refused_;  // the last address that could not be reached
  time_point protocol_wakes_ = no_deadline;
  time_point transfer_wakes_ = no_deadline;
  std::uint64_t seen_changes_ = 0;
  bool time_given_ = false;
  std::uint32_t last_epoch_ = 0;
  std::uint32_t cancelled_before_ = 0;
};

}}  // namespace causeway::CAUSEWAY_ABI

#ifndef CAUSEWAY_COMPILED
#include <causeway/train/impl/member_control.ipp>
#endif

#endif  // CAUSEWAY_TRAIN_MEMBER_CONTROL_HPP
