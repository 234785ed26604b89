// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_IMPL_MEMBER_CONTROL_IPP
#define CAUSEWAY_TRAIN_IMPL_MEMBER_CONTROL_IPP

#include <causeway/train/member_control.hpp>

#include <algorithm>
#include <exception>

namespace causeway { inline namespace CAUSEWAY_ABI {

CAUSEWAY_LAZY basic_member_control<Whole>::basic_member_control(std::shared_ptr<net::fabric> fabric,
                                                                io::any_storage storage, const member_options& options,
                                                                log_sink log, membership::durable_record record)
    : fabric_{std::move(fabric)},
      storage_{std::move(storage)},
      options_{options},
      log_{std::move(log)},
      behind_{outlets(), options.protocol.silence.floor, options.protocol.run},
      journal_{*fabric_, behind_, static_cast<bool>(options.journal)},
      protocol_{protocol_options(), std::move(record), *this},
      transfer_{*this, transfer_options()} {}

CAUSEWAY_LAZY void basic_member_control<Whole>::send(net::peer_id to, std::vector<std::byte> message) {
  behind_.send(to, std::move(message));
}

CAUSEWAY_LAZY void basic_member_control<Whole>::transfer_send(net::peer_id to, std::vector<std::byte> message) {
  post(to, std::move(message), true);
}

CAUSEWAY_LAZY result<std::unique_ptr<member_control>> basic_member_control<Whole>::make(std::shared_ptr<net::fabric> fabric,
                                                                                        io::any_storage storage,
                                                                                        const member_options& options,
                                                                                        log_sink log) {
  auto record = membership::fresh_record(options.protocol.run, fabric->id());
  auto found = detail::read_member_record(storage, options.folder);
  if (found && found->run == options.protocol.run && found->self == fabric->id()) record = std::move(found).value();
  return std::unique_ptr<member_control>{
      new member_control{std::move(fabric), std::move(storage), options, std::move(log), std::move(record)}};
}

CAUSEWAY_LAZY auto basic_member_control<Whole>::remembered() const -> std::optional<named_round> {
  const auto& newest = protocol_.durable().newest;
  return newest ? std::optional{named_round{newest->round, newest->state}} : std::nullopt;
}

CAUSEWAY_LAZY auto basic_member_control<Whole>::voted_for() const -> std::optional<named_round> {
  const auto& vote = protocol_.durable().accepted;
  return vote ? std::optional{named_round{vote->value.round, vote->value.state}} : std::nullopt;
}

CAUSEWAY_LAZY void basic_member_control<Whole>::begin(const std::optional<named_round>& stored, std::uint64_t initial) {
  const bool known = protocol_.durable().newest.has_value();
  if (options_.dial.empty() && !known) {
    protocol_.found(initial, fabric_->now());
  } else {
    protocol_.join(options_.dial, fabric_->now());
    if (stored) protocol_.holds(stored->round, stored->hash, fabric_->now());
  }
  after_event();
}

CAUSEWAY_LAZY void basic_member_control<Whole>::ready(std::uint64_t round, std::uint64_t parent, std::uint64_t samples) {
  protocol_.ready(round, parent, samples, fabric_->now());
  after_event();
}

CAUSEWAY_LAZY void basic_member_control<Whole>::announce(std::uint64_t round, std::uint64_t parent, std::uint64_t samples) {
  protocol_.announce(round, parent, samples, fabric_->now());
  after_event();
}

CAUSEWAY_LAZY bool basic_member_control<Whole>::completed(membership::ballot at) {
  const bool in_time = protocol_.completed(at, fabric_->now());
  after_event();
  return in_time;
}

CAUSEWAY_LAZY void basic_member_control<Whole>::voted(membership::ballot at, std::uint64_t round, std::uint64_t hash) {
  protocol_.voted(at, round, hash, fabric_->now());
  after_event();
}

CAUSEWAY_LAZY void basic_member_control<Whole>::failed(membership::ballot at, errc why,
                                                       const std::vector<net::peer_id>& suspects) {
  protocol_.failed(at, why, suspects, fabric_->now());
  after_event();
}

CAUSEWAY_LAZY void basic_member_control<Whole>::unusable(membership::ballot at) {
  protocol_.unusable(at, fabric_->now());
  after_event();
}

CAUSEWAY_LAZY void basic_member_control<Whole>::holds(std::uint64_t round, std::uint64_t hash) {
  protocol_.holds(round, hash, fabric_->now());
  after_event();
}

CAUSEWAY_LAZY void basic_member_control<Whole>::leave() {
  protocol_.leave(fabric_->now());
  after_event();
}

CAUSEWAY_LAZY std::vector<std::byte> basic_member_control<Whole>::record_of(std::uint64_t round, std::uint64_t hash) const {
  return protocol_.record_of(round, hash);
}

CAUSEWAY_LAZY std::optional<error> basic_member_control<Whole>::alone_too_long(duration patience) const {
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

CAUSEWAY_LAZY std::vector<net::peer_index> basic_member_control<Whole>::links_of(const membership::view& view) const {
  std::vector<net::peer_index> links;
  for (const auto& m : view.members) links.push_back(m.peer == fabric_->id() ? 0 : links_.at(m.peer));
  return links;
}

CAUSEWAY_LAZY std::vector<net::peer_id> basic_member_control<Whole>::missing_of(const membership::view& view) const {
  std::vector<net::peer_id> missing;
  for (const auto& m : view.members) {
    if (!meets(m.peer)) missing.push_back(m.peer);
  }
  return missing;
}

CAUSEWAY_LAZY bool basic_member_control<Whole>::meets(net::peer_id id) const {
  const auto at = links_.find(id);
  return id == fabric_->id() || (at != links_.end() && fabric_->is_up(at->second));
}

CAUSEWAY_LAZY void basic_member_control<Whole>::dial_missing(const membership::view& view) {
  refused_.clear();
  for (const auto& m : view.members) {
    if (!meets(m.peer)) fabric_->dial(m.address);
  }
}

CAUSEWAY_LAZY void basic_member_control<Whole>::offer(std::uint64_t round, const membership::state_image& image) {
  if (offered_ == round && transfer_.giving.offers({round, image.root()})) return;
  withdraw();
  transfer_.giving.offer(round, image);
  offered_ = round;
}

CAUSEWAY_LAZY void basic_member_control<Whole>::withdraw() {
  if (!offered_) return;
  transfer_.keeping.withdrawn(*offered_);
  if (!transfer_.keeping.has_copy(*offered_)) transfer_.giving.withdraw(*offered_);
  offered_.reset();
}

CAUSEWAY_LAZY void basic_member_control<Whole>::offer_from(std::shared_ptr<const membership::kept_bytes> copy) {
  transfer_.giving.read_from(*offered_, membership::kept_bytes::reader(std::move(copy)));
}

CAUSEWAY_LAZY void basic_member_control<Whole>::copied(std::shared_ptr<const membership::kept_bytes> bytes) {
  if (offered_) transfer_.keeping.copied(*offered_, std::move(bytes));
}

CAUSEWAY_LAZY void basic_member_control<Whole>::add_mean(std::uint64_t round,
                                                         std::shared_ptr<const membership::kept_bytes> mean) {
  transfer_.keeping.add_mean(round, std::move(mean));
}

CAUSEWAY_LAZY void basic_member_control<Whole>::exchanging(bool yes) {
  transfer_.giving.busy(yes, fabric_->now());
  after_event();
}

CAUSEWAY_LAZY void basic_member_control<Whole>::start_fetch(std::uint64_t round, std::uint64_t hash,
                                                            const membership::state_image& image, bool keep) {
  dial_holders();
  transfer_.kept.end();
  if (keep) transfer_.kept.begin({round, hash}, holders());
  transfer_.taking.start({round, hash}, holders(), image, fabric_->now());
  after_event();
}

CAUSEWAY_LAZY void basic_member_control<Whole>::start_mean(std::uint64_t round, std::uint64_t root,
                                                           const membership::state_image& image) {
  transfer_.taking.start({round | membership::mean_bit, root}, transfer_.kept.keepers(), image, fabric_->now());
  after_event();
}

CAUSEWAY_LAZY void basic_member_control<Whole>::ask_for_time(const membership::transfer_need& needs) {
  time_given_ = false;
  membership::transfer_message m{.kind = membership::transfer_kind::ask_time};
  m.newest = static_cast<std::uint64_t>(std::max<duration::rep>(needs.takes.count(), 1));
  m.index = static_cast<std::uint64_t>(needs.worth.count());
  post(protocol_.leader(), encode(m), false);
}

CAUSEWAY_LAZY void basic_member_control<Whole>::post(net::peer_id to, std::vector<std::byte> message, bool bulk) {
  const auto at = links_.find(to);
  if (at != links_.end()) fabric_->post(at->second, std::move(message), bulk);
}

CAUSEWAY_LAZY std::string basic_member_control<Whole>::describe() const {
  std::string text = protocol_.describe(fabric_->now());
  if (transfer_.taking.state() == membership::fetcher::status::running) {
    const auto p = transfer_.taking.progress();
    text += "fetching the state of round " + std::to_string(transfer_.taking.goal().round) + ": " +
            std::to_string(p.bytes_done) + " of " + std::to_string(p.bytes_total) + " bytes, from " +
            std::to_string(p.holders.size()) + " peers\n";
  }
  return text;
}

CAUSEWAY_LAZY void basic_member_control<Whole>::detach() {
  fabric_->attach(nullptr);
  if (std::uncaught_exceptions() != 0) return;
  behind_.flush([this](const std::function<void()>& what) { fabric_->locked(what); }, [this] { fabric_->attach(nullptr); });
}

CAUSEWAY_LAZY detail::write_behind::outlets basic_member_control<Whole>::outlets() {
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
                after_event();
              },
          .now = [this] { return fabric_->now(); }};
}

CAUSEWAY_LAZY membership::options basic_member_control<Whole>::protocol_options() const {
  membership::options o = options_.protocol;
  o.address = fabric_->address();
  return o;
}

CAUSEWAY_LAZY membership::transfer_options basic_member_control<Whole>::transfer_options() const {
  membership::transfer_options o;
  const auto now = static_cast<std::uint64_t>(fabric_->now().since_start.count());
  o.seed = options_.secret != 0 ? options_.secret : mix(fabric_->id(), now);
  return o;
}

CAUSEWAY_LAZY void basic_member_control<Whole>::on_up(net::peer_index link, net::peer_id id, const std::string& address) {
  if (const auto before = peers_.find(link); before != peers_.end() && before->second != id) links_.erase(before->second);
  links_[id] = link;
  peers_[link] = id;
  protocol_.peer_up(id, address, fabric_->now());
  transfer_.peer_up(id, fabric_->now());
  after_event();
}

CAUSEWAY_LAZY void basic_member_control<Whole>::on_down(net::peer_index link, const error& why) {
  const net::peer_id id = peers_[link];
  protocol_.peer_down(id, why.message, fabric_->now());
  transfer_.peer_down(id, fabric_->now());
  after_event();
}

CAUSEWAY_LAZY void basic_member_control<Whole>::on_unreachable(const std::string& address, const error& why) {
  refused_ = address;
  protocol_.unreachable(address, why.message, fabric_->now());
  after_event();
}

CAUSEWAY_LAZY void basic_member_control<Whole>::on_control(net::peer_index link, std::span<const std::byte> message) {
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
  after_event();
}

CAUSEWAY_LAZY void basic_member_control<Whole>::on_wake() {
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
  after_event();
}

CAUSEWAY_LAZY void basic_member_control<Whole>::drop(net::peer_id peer, const std::string& why) {
  const auto at = links_.find(peer);
  if (at != links_.end()) fabric_->close(at->second, why);
}

CAUSEWAY_LAZY bool basic_member_control<Whole>::persist(const membership::durable_record& record) {
  behind_.persist(record);
  return true;
}

CAUSEWAY_LAZY bool basic_member_control<Whole>::write(const std::vector<std::byte>& record) {
  const auto written = detail::write_member_record(storage_, options_.folder, record);
  if (!written) log_(severity::error, "the membership record cannot be written: " + written.error().text());
  return written.has_value();
}

CAUSEWAY_LAZY void basic_member_control<Whole>::give_time(net::peer_id peer, duration how_long) {
  const auto ns = static_cast<std::uint64_t>(how_long.count());
  post(peer, encode(membership::transfer_message{.kind = membership::transfer_kind::time_given, .newest = ns}), false);
}

CAUSEWAY_LAZY void basic_member_control<Whole>::note(const membership::event& e) {
  if (options_.journal) behind_.note(e);
}

CAUSEWAY_LAZY result<void> basic_member_control<Whole>::take_transfer(net::peer_id from,
                                                                      std::span<const std::byte> message) {
  using kind = membership::transfer_kind;
  if (message.front() == std::byte{static_cast<std::uint8_t>(kind::ask_time)}) {
    CAUSEWAY_ASSIGN(const auto m, membership::decode_transfer(message));
    const auto most = static_cast<std::uint64_t>(duration::max().count());
    const auto of = [&](std::uint64_t ns) { return duration{static_cast<duration::rep>(std::min(ns, most))}; };
    protocol_.asks_for_time(from, {of(m.newest), of(m.index)}, fabric_->now());
    return {};
  }
  if (message.front() == std::byte{static_cast<std::uint8_t>(kind::time_given)}) {
    CAUSEWAY_TRY(membership::decode_transfer(message));
    time_given_ = time_given_ || from == protocol_.leader();
    return {};
  }
  return transfer_.message(from, message, fabric_->now());
}

CAUSEWAY_LAZY void basic_member_control<Whole>::dial_holders() {
  for (const auto& h : protocol_.now_what().holders) {
    if (!meets(h.peer) && !h.address.empty()) fabric_->dial(h.address);
  }
}

CAUSEWAY_LAZY std::vector<net::peer_id> basic_member_control<Whole>::holders() const {
  std::vector<net::peer_id> ids;
  for (const auto& h : protocol_.now_what().holders) ids.push_back(h.peer);
  return ids;
}

CAUSEWAY_LAZY void basic_member_control<Whole>::after_event() {
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

#ifdef CAUSEWAY_COMPILED
template class basic_member_control<void>;
#endif

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_IMPL_MEMBER_CONTROL_IPP
