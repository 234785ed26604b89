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
#include <causeway/membership/transfer.hpp>
#include <causeway/net/deadline.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/train/write_behind.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI {

struct member_options {
  membership::options protocol;   ///< run id, expected peers, smallest quorum, samples per round and in all
  std::vector<std::string> dial;  ///< addresses of live peers; none: found a new run, unless the disk knows one
  std::string folder = "member";  ///< on the storage
  std::uint32_t store_every = 1;  ///< rounds between copies of the shared state on disk; 0: none, a vote keeps it in memory
  net::arrival_options exchange{};               ///< how long an exchange may take, learned from earlier ones
  duration say_after = std::chrono::seconds{5};  ///< a wait longer than this is logged, then at double intervals
  /// How long a newcomer may find nobody of the run, before it ends with errc::unreachable; ten times as long once it has
  /// been in. 0: for ever.
  duration patience{0};
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

namespace detail {

// The record is in its file twice, so that one damaged place costs nothing: without it this peer would be somebody else.
inline result<membership::durable_record> read_member_record(io::any_storage& storage, const std::string& folder) {
  CAUSEWAY_ASSIGN(const io::byte_vector bytes, storage.read(folder + "/record"));
  const std::span<const std::byte> all{bytes};
  auto first = membership::decode_durable_record(all.first(all.size() / 2));
  return first ? std::move(first) : membership::decode_durable_record(all.last(all.size() / 2));
}

inline result<void> write_member_record(io::any_storage& storage, const std::string& folder,
                                        const std::vector<std::byte>& bytes) {
  return storage.write_atomic(folder + "/record", [&](const io::byte_sink& sink) -> result<void> {
    CAUSEWAY_TRY(sink(std::span{bytes}));
    return sink(std::span{bytes});
  });
}

}  // namespace detail

/// The identity that this storage has in a run, or `fresh` if it has none: a record that is torn or lost is no identity.
inline net::peer_id member_identity(io::any_storage storage, const std::string& folder, std::uint64_t run,
                                    net::peer_id fresh) {
  const auto record = detail::read_member_record(storage, folder);
  return record && record->run == run ? record->self : fresh;
}

class member_control final : net::fabric_events, membership::effects, membership::transfer_effects {
 public:
  static result<std::unique_ptr<member_control>> make(std::shared_ptr<net::fabric> fabric, io::any_storage storage,
                                                      const member_options& options, log_sink log) {
    auto record = membership::fresh_record(options.protocol.run, fabric->id());
    auto found = detail::read_member_record(storage, options.folder);
    if (found && found->run == options.protocol.run && found->self == fabric->id()) record = std::move(found).value();
    return std::unique_ptr<member_control>{
        new member_control{std::move(fabric), std::move(storage), options, std::move(log), std::move(record)}};
  }

  /// A round and the name of its state.
  struct named_round {
    std::uint64_t round = 0;
    std::uint64_t hash = 0;
  };

  /// What this peer knows to be committed, and what it voted for afterwards, as of its last process.
  [[nodiscard]] std::optional<named_round> remembered() const {
    const auto& newest = protocol_.durable().newest;
    return newest ? std::optional{named_round{newest->round, newest->state}} : std::nullopt;
  }
  [[nodiscard]] std::optional<named_round> voted_for() const {
    const auto& vote = protocol_.durable().accepted;
    return vote ? std::optional{named_round{vote->value.round, vote->value.state}} : std::nullopt;
  }

  // ---- with the lock held -------------------------------------------------------------------------------------------

  /// Begins to take part. `stored`: what the disk had; `initial`: the hash of the state in memory.
  void begin(const std::optional<named_round>& stored, std::uint64_t initial) {
    const bool known = protocol_.durable().newest.has_value();
    if (options_.dial.empty() && !known) {
      protocol_.found(initial, fabric_->now());
    } else {
      protocol_.join(options_.dial, fabric_->now());
      if (stored) protocol_.holds(stored->round, stored->hash, fabric_->now());
    }
    settle();
  }

  void ready(std::uint64_t round, std::uint64_t parent, std::uint64_t samples) {
    protocol_.ready(round, parent, samples, fabric_->now());
    settle();
  }
  [[nodiscard]] bool completed(membership::ballot at) {
    const bool in_time = protocol_.completed(at, fabric_->now());
    settle();
    return in_time;
  }
  void voted(membership::ballot at, std::uint64_t round, std::uint64_t hash) {
    protocol_.voted(at, round, hash, fabric_->now());
    settle();
  }
  void failed(membership::ballot at, errc why, const std::vector<net::peer_id>& suspects) {
    protocol_.failed(at, why, suspects, fabric_->now());
    settle();
  }
  void unusable(membership::ballot at) {
    protocol_.unusable(at, fabric_->now());
    settle();
  }
  void holds(std::uint64_t round, std::uint64_t hash) {
    protocol_.holds(round, hash, fabric_->now());
    settle();
  }
  void leave() {
    protocol_.leave(fabric_->now());
    settle();
  }

  /// Whether the record on disk says what this peer knows, or the disk has failed.
  [[nodiscard]] bool written() const noexcept { return behind_.over(); }
  [[nodiscard]] const membership::situation& now_what() const noexcept { return protocol_.now_what(); }
  [[nodiscard]] const membership::ledger& ledger() const noexcept { return protocol_.samples(); }
  [[nodiscard]] std::vector<std::byte> record_of(std::uint64_t round, std::uint64_t hash) const {
    return protocol_.record_of(round, hash);
  }
  [[nodiscard]] const membership::protocol& decisions() const noexcept { return protocol_; }
  /// Why a peer that has found nobody for `patience` should wait no longer; none while it should, or patience is 0.
  [[nodiscard]] std::optional<error> alone_too_long(duration patience) const {
    const duration alone = protocol_.alone_for(fabric_->now());
    const bool complete = protocol_.samples().complete();
    const bool is_member = membership::contains(now_what().newest.members, fabric_->id());
    if (patience <= duration{0} || alone < patience) return std::nullopt;
    if (is_member && options_.members_wait && !complete) return std::nullopt;
    const std::string who = options_.dial.empty() ? "the run" : options_.dial.front();
    const std::string since = std::to_string(static_cast<std::int64_t>(seconds(alone))) + " s";
    if (complete) {
      return fail(errc::unreachable, who,
                  "the run is complete with round " + std::to_string(now_what().newest.round) + ", and since " + since +
                      " nobody is there any more who holds its result: look in the folders of its other peers");
    }
    return fail(errc::unreachable, who,
                "nobody of the run answers there, or at any other address that it was ever known at, since " + since +
                    ": it has ended, or its peers are elsewhere; join again at the address of a peer that runs, or start "
                    "the members of its last round again first");
  }

  /// The links of a view's members in their order. All but our own must have been met.
  [[nodiscard]] std::vector<net::peer_index> links_of(const membership::view& view) const {
    std::vector<net::peer_index> links;
    for (const auto& m : view.members) links.push_back(m.peer == fabric_->id() ? 0 : links_.at(m.peer));
    return links;
  }

  /// Members of a view without a connection to this peer.
  [[nodiscard]] std::vector<net::peer_id> missing_of(const membership::view& view) const {
    std::vector<net::peer_id> missing;
    for (const auto& m : view.members) {
      if (!meets(m.peer)) missing.push_back(m.peer);
    }
    return missing;
  }

  [[nodiscard]] bool meets(net::peer_id id) const {
    const auto at = links_.find(id);
    return id == fabric_->id() || (at != links_.end() && fabric_->is_up(at->second));
  }

  /// Starts to connect to the members of a view that are missing.
  void dial_missing(const membership::view& view) {
    refused_.clear();
    for (const auto& m : view.members) {
      if (!meets(m.peer)) fabric_->dial(m.address);
    }
  }

  /// Whether a dial since then was in vain.
  [[nodiscard]] bool dialled_in_vain() const noexcept { return !refused_.empty(); }

  // ---- the shared state ---------------------------------------------------------------------------------------------

  /// Others may fetch it from now on. `image` must be hashed and stay as it is until withdrawn.
  void offer(std::uint64_t round, const membership::state_image& image) {
    if (offered_ == round && transfer_.giving.offers({round, image.root()})) return;
    withdraw();
    transfer_.giving.offer(round, image);
    offered_ = round;
  }
  /// The memory of what is offered is about to change. What others fetch of it goes on from a copy, if there is one.
  void withdraw() {
    if (!offered_) return;
    transfer_.keeping.withdrawn(*offered_);
    if (!transfer_.keeping.has_copy(*offered_)) transfer_.giving.withdraw(*offered_);
    offered_.reset();
  }
  /// Whether a copy must be made before `withdraw`.
  [[nodiscard]] bool needs_copy() const { return offered_ && transfer_.keeping.needs_copy(*offered_); }
  void copied(std::shared_ptr<const membership::kept_bytes> bytes) {
    if (offered_) transfer_.keeping.copied(*offered_, std::move(bytes));
  }
  /// Whether others will want to know what rounds exchanged.
  [[nodiscard]] bool keeps_means() const noexcept { return transfer_.keeping.any(); }
  void add_mean(std::uint64_t round, std::shared_ptr<const membership::kept_bytes> mean) {
    transfer_.keeping.add_mean(round, std::move(mean));
  }
  void forget_means() { transfer_.keeping.clear(); }
  /// This peer exchanges data, or no longer.
  void exchanging(bool yes) {
    transfer_.giving.busy(yes, fabric_->now());
    settle();
  }
  /// Beside the other: a vote of the last process, which may be the only copy there is.
  void offer_spare(std::uint64_t round, const membership::state_image& image) { transfer_.giving.offer(round, image); }
  void withdraw_spare(std::uint64_t round) { transfer_.giving.withdraw(round); }

  /// `keep`: the holders are asked to keep it, and what later rounds exchange, until `end_catch_up`.
  void start_fetch(std::uint64_t round, std::uint64_t hash, const membership::state_image& image, bool keep) {
    dial_holders();
    transfer_.kept.end();
    if (keep) transfer_.kept.begin({round, hash}, holders());
    transfer_.taking.start({round, hash}, holders(), image, fabric_->now());
    settle();
  }
  void start_mean(std::uint64_t round, std::uint64_t root, const membership::state_image& image) {
    transfer_.taking.start({round | membership::mean_bit, root}, transfer_.kept.keepers(), image, fabric_->now());
    settle();
  }
  [[nodiscard]] membership::kept_for_us& kept() noexcept { return transfer_.kept; }
  void stop_fetch() { transfer_.taking.stop(); }

  /// Asks the leader to hold the next round back for so long. `time_was_given` says when it does.
  void ask_for_time(duration needs) {
    time_given_ = false;
    const auto ns = static_cast<std::uint64_t>(std::max<duration::rep>(needs.count(), 1));
    post(protocol_.leader(),
         encode(membership::transfer_message{.kind = membership::transfer_kind::ask_time, .newest = ns}), false);
  }
  [[nodiscard]] bool time_was_given() const noexcept { return time_given_; }
  [[nodiscard]] membership::fetcher& fetch() noexcept { return transfer_.taking; }

  // ---- for the checker: what the trainer did --------------------------------------------------------------------------

  /// `drawn`: sample numbers, of which the last `count` were trained on for the round after `on`.
  void record_trained(const membership::commit_record& on, std::span<const std::uint64_t> drawn, std::uint64_t count) {
    if (!options_.journal || count == 0) return;
    membership::event e;
    e.what = membership::event::trained;
    e.round = on.round + 1;
    e.parent = on.chain();
    for (const std::uint64_t n : drawn.last(std::min<std::size_t>(drawn.size(), count))) {
      if (!e.ranges.empty() && e.ranges.back().first + e.ranges.back().count == n) {
        ++e.ranges.back().count;
      } else {
        e.ranges.push_back({n, 1});
      }
    }
    record(std::move(e));
  }
  void record_updates(const membership::view& view) {
    if (!options_.journal) return;
    for (const auto& m : view.members) {
      if (m.peer == fabric_->id()) continue;
      membership::event e;
      e.what = membership::event::update_accepted;
      e.from = m.peer;
      e.at = view.at;
      e.round = view.round;
      e.parent = view.parent;
      record(std::move(e));
    }
  }
  void record_held(const membership::commit_record& record_of) {
    membership::event e;
    e.what = membership::event::held;
    e.round = record_of.round;
    e.hash = record_of.state;
    record(std::move(e));
  }

  void post(net::peer_id to, std::vector<std::byte> message, bool bulk) {
    const auto at = links_.find(to);
    if (at != links_.end()) fabric_->post(at->second, std::move(message), bulk);
  }

  [[nodiscard]] std::string describe() const {
    std::string text = protocol_.describe(fabric_->now());
    if (transfer_.taking.state() == membership::fetcher::status::running) {
      const auto p = transfer_.taking.progress();
      text += "fetching the state of round " + std::to_string(transfer_.taking.goal().round) + ": " +
              std::to_string(p.bytes_done) + " of " + std::to_string(p.bytes_total) + " bytes, from " +
              std::to_string(p.holders.size()) + " peers\n";
    }
    return text;
  }

  void attach() { fabric_->attach(this); }
  /// In an orderly end what others are to hear is written and said first.
  void detach() {
    fabric_->attach(nullptr);
    if (std::uncaught_exceptions() != 0) return;
    behind_.flush([this](const std::function<void()>& what) { fabric_->locked(what); },
                  [this] { fabric_->attach(nullptr); });
  }

 private:
  member_control(std::shared_ptr<net::fabric> fabric, io::any_storage storage, const member_options& options, log_sink log,
                 membership::durable_record record)
      : fabric_{std::move(fabric)},
        storage_{std::move(storage)},
        options_{options},
        log_{std::move(log)},
        behind_{outlets(), options.protocol.silence.floor, options.protocol.run},
        protocol_{protocol_options(), std::move(record), *this},
        transfer_{*this, transfer_options()} {}

  detail::write_behind::outlets outlets() {
    return {.aside = [this](auto work, auto then) { fabric_->aside(std::move(work), std::move(then)); },
            .write = [this](const std::vector<std::byte>& record) { return write(record); },
            .send = [this](net::peer_id to, std::vector<std::byte> message) { post(to, std::move(message), false); },
            .note =
                [this](const membership::event& e) {
                  if (options_.journal) options_.journal(e);
                },
            .failed =
                [this] {
                  protocol_.disk_failed(fabric_->now());
                  settle();
                },
            .now = [this] { return fabric_->now(); }};
  }

  [[nodiscard]] membership::options protocol_options() const {
    membership::options o = options_.protocol;
    o.address = fabric_->address();
    return o;
  }
  [[nodiscard]] membership::transfer_options transfer_options() const {
    membership::transfer_options o;
    const auto now = static_cast<std::uint64_t>(fabric_->now().since_start.count());
    o.seed = options_.secret != 0 ? options_.secret : mix(fabric_->id(), now);
    return o;
  }

  // ---- net::fabric_events -------------------------------------------------------------------------------------------

  void on_up(net::peer_index link, net::peer_id id, const std::string& address) override {
    if (const auto before = peers_.find(link); before != peers_.end() && before->second != id) links_.erase(before->second);
    links_[id] = link;
    peers_[link] = id;
    protocol_.peer_up(id, address, fabric_->now());
    transfer_.peer_up(id, fabric_->now());
    settle();
  }
  void on_down(net::peer_index link, const error& why) override {
    const net::peer_id id = peers_[link];
    protocol_.peer_down(id, why.message, fabric_->now());
    transfer_.peer_down(id, fabric_->now());
    settle();
  }
  void on_unreachable(const std::string& address, const error& why) override {
    refused_ = address;
    protocol_.unreachable(address, why.message, fabric_->now());
    settle();
  }
  void on_control(net::peer_index link, std::span<const std::byte> message) override {
    const net::peer_id from = peers_[link];
    const bool others = !message.empty() && message.front() >= std::byte{0x90};
    if (membership::is_transfer_message(message)) {
      const auto taken = take_transfer(from, message);
      if (!taken) protocol_.malformed(from, taken.error().text(), fabric_->now());
    } else if (!others) {
      protocol_.message(from, message, fabric_->now());
    } else if (options_.other_messages) {
      options_.other_messages(link, message);
    } else {
      protocol_.malformed(from, "a message that nobody here reads", fabric_->now());
    }
    settle();
  }
  void on_wake() override {
    const time_point now = fabric_->now();
    if (protocol_wakes_ <= now) {
      protocol_wakes_ = no_deadline;
      protocol_.wake(now);
    }
    if (transfer_wakes_ <= now) {
      transfer_wakes_ = no_deadline;
      transfer_.taking.wake(now);
    }
    if (transfer_.giving.next_wake() <= now) transfer_.giving.wake(now);
    settle();
  }

  // ---- membership::effects ------------------------------------------------------------------------------------------

  void send(net::peer_id to, std::vector<std::byte> message) override { behind_.send(to, std::move(message)); }
  void dial(const std::string& address) override { fabric_->dial(address); }
  void drop(net::peer_id peer, const std::string& why) override {
    const auto at = links_.find(peer);
    if (at != links_.end()) fabric_->close(at->second, why);
  }
  bool persist(const membership::durable_record& record) override {
    behind_.persist(record);
    return true;
  }
  /// Without the lock.
  bool write(const std::vector<std::byte>& record) {
    const auto written = detail::write_member_record(storage_, options_.folder, record);
    if (!written) log_(severity::error, "the membership record cannot be written: " + written.error().text());
    return written.has_value();
  }
  void wake_at(time_point when) override { protocol_wakes_ = when; }
  void give_time(net::peer_id peer, duration how_long) override {
    const auto ns = static_cast<std::uint64_t>(how_long.count());
    post(peer, encode(membership::transfer_message{.kind = membership::transfer_kind::time_given, .newest = ns}), false);
  }
  void note(const membership::event& e) override {
    if (options_.journal) behind_.note(e);
  }
  void log(severity level, std::string_view text) override { log_(level, text); }

  // ---- membership::transfer_effects ---------------------------------------------------------------------------------

  void transfer_send(net::peer_id to, std::vector<std::byte> message) override { post(to, std::move(message), true); }
  void transfer_wake_at(time_point when) override { transfer_wakes_ = when; }
  void transfer_log(severity level, std::string_view text) override { log_(level, text); }

  result<void> take_transfer(net::peer_id from, std::span<const std::byte> message) {
    using kind = membership::transfer_kind;
    if (message.front() == std::byte{static_cast<std::uint8_t>(kind::ask_time)}) {
      CAUSEWAY_ASSIGN(const auto m, membership::decode_transfer(message));
      const auto most = static_cast<std::uint64_t>(duration::max().count());
      protocol_.asks_for_time(from, duration{static_cast<duration::rep>(std::min(m.newest, most))}, fabric_->now());
      return {};
    }
    if (message.front() == std::byte{static_cast<std::uint8_t>(kind::time_given)}) {
      CAUSEWAY_TRY(membership::decode_transfer(message));
      time_given_ = time_given_ || from == protocol_.leader();
      return {};
    }
    return transfer_.message(from, message, fabric_->now());
  }

  /// Of many peers a newcomer has met only a few, and those who hold the state may be others.
  void dial_holders() {
    for (const auto& h : protocol_.now_what().holders) {
      if (!meets(h.peer) && !h.address.empty()) fabric_->dial(h.address);
    }
  }

  [[nodiscard]] std::vector<net::peer_id> holders() const {
    std::vector<net::peer_id> ids;
    for (const auto& h : protocol_.now_what().holders) ids.push_back(h.peer);
    return ids;
  }

  void record(membership::event e) {
    if (!options_.journal) return;
    e.peer = fabric_->id();
    e.at_time = fabric_->now();
    behind_.note(e);
  }

  // After every event: data of attempts that are over is refused, a fetch learns who can help, the next wake-up is set.
  void settle() {
    if (behind_.must_resign()) protocol_.resign(fabric_->now());
    const auto& s = protocol_.now_what();
    const bool goal_moved = transfer_.taking.goal().root != s.hash;  // then these hold something else
    if (transfer_.taking.state() == membership::fetcher::status::running && s.changes != seen_changes_ && !goal_moved) {
      dial_holders();
      transfer_.taking.holders(holders(), fabric_->now());
    }
    seen_changes_ = s.changes;
    using kind = membership::situation::kind;
    const bool open = s.is == kind::exchange || s.is == kind::adopt || s.is == kind::committing;
    const std::uint32_t epoch = open ? s.current.at.wire() : last_epoch_ + 1;
    if (s.is == kind::exchange) last_epoch_ = epoch;
    if (epoch > cancelled_before_) {
      cancelled_before_ = epoch;
      fabric_->cancel_before(epoch);
    }
    fabric_->wake_at(std::min({protocol_wakes_, transfer_wakes_, transfer_.giving.next_wake()}));
  }

  std::shared_ptr<net::fabric> fabric_;
  io::any_storage storage_;
  member_options options_;
  log_sink log_;
  detail::write_behind behind_;
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

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_MEMBER_CONTROL_HPP
