// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_IMPL_SERVER_CLIENT_IPP
#define CAUSEWAY_COMM_IMPL_SERVER_CLIENT_IPP

#include <causeway/comm/server_client.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

CAUSEWAY_DECL result<void> server_client::open(const hub_terms& terms, std::uint32_t level, net::peer_index hub,
                                               std::span<const float> parameters) {
  if (anchor_.empty()) {
    anchor_.assign(parameters.begin(), parameters.end());
    legs_.resize(terms.cuts.size());
  }
  if (anchor_.size() != parameters.size() || legs_.size() != terms.cuts.size()) {
    return fail(errc::wrong_model, "async_parameter_server",
                "the checkpoint was written with other fragments or another model; start with the settings it had");
  }
  level_ = level;
  hub_ = hub;
  leaving_ = false;
  line_.reset();
  if (hub == terms.transport.self()) return {};
  const std::size_t most =
      sizeof(answer_header) + std::max(anchor_.size() * sizeof(float), legs_.size() * sizeof(std::uint64_t));
  line_ = std::make_unique<hub_line>(terms.transport, hub, hub_channel(level), hub_channel(level) + 1, most);
  return {};
}

CAUSEWAY_DECL void server_client::greet() {
  if (is_local()) return;
  const push_header h{
      .word = hub_word::hello, .fragment = static_cast<std::uint32_t>(legs_.size()), .samples = anchor_.size()};
  auto bytes = with_header(h, legs_.size() * sizeof(hello_entry));
  std::byte* to = bytes.data() + sizeof h;
  for (const hub_leg& leg : legs_) {
    const hello_entry entry{leg.number, leg.pending && !leg.answered ? 1U : 0U};
    std::memcpy(to, &entry, sizeof entry);
    to += sizeof entry;
  }
  line_->send(std::move(bytes));
}

CAUSEWAY_DECL result<void> server_client::agree(const hub_terms& terms) {
  if (is_local()) return {};
  CAUSEWAY_ASSIGN(const auto taken, hear_taken(terms));
  for (std::size_t f = 0; f < legs_.size(); ++f) agree(legs_[f], taken[f], terms);
  return {};
}

CAUSEWAY_DECL result<std::vector<std::uint64_t>> server_client::hear_taken(const hub_terms& terms) {
  auto bytes = line_->take(terms.deadline);
  if (!bytes) return hub_lost(bytes.error());
  CAUSEWAY_ASSIGN(const answer_header h, take_header<answer_header>(*bytes, hub_));
  if (h.word == hub_word::refused) return refused(h);
  std::vector<std::uint64_t> taken(legs_.size());
  const auto room = std::as_writable_bytes(std::span{taken});
  if (h.word != hub_word::hello || bytes->size() != room.size()) return nonsense();
  std::memcpy(room.data(), bytes->data(), room.size());
  return taken;
}

CAUSEWAY_DECL void server_client::resume_from(std::span<const std::uint64_t> taken, std::span<float> pushed,
                                              const hub_terms& terms) {
  for (std::size_t f = 0; f < legs_.size(); ++f) {
    hub_leg& leg = legs_[f];
    const bool under_way = leg.pending && !leg.spoilt;
    if (under_way && taken[f] >= leg.number) {
      axis::scatter(terms.cuts[f], leg.at_send, anchor_);
      leg.samples = leg.steps > 0 ? leg.samples * leg.since / leg.steps : 0;
      leg.steps = leg.since;
    } else if (under_way) {
      add_pushed(-1.0F, terms.cuts[f], anchor_, leg.at_send, pushed);
      leg.since = std::max(leg.since, std::uint32_t{1});  // there is something to push again
    }
    leg.number = taken[f];
    leg.end_push();
  }
}

CAUSEWAY_DECL void add_pushed(float sign, const axis::fragment& cut, std::span<const float> pulled,
                              std::span<const float> live, std::span<float> pushed) {
  auto at = live.begin();
  for (const index_range r : cut.ranges) {
    for (auto i = static_cast<std::size_t>(r.begin); i < static_cast<std::size_t>(r.end); ++i, ++at) {
      pushed[i] += sign * (pulled[i] - *at);
    }
  }
}

CAUSEWAY_DECL void server_client::take_back(std::span<const float> pushed, std::span<const float> shared,
                                            std::span<float> live, std::span<const hub_work> work, const hub_terms& terms) {
  for (std::size_t f = 0; f < legs_.size(); ++f) recall(f, work[f], terms);
  for (std::size_t i = 0; i < anchor_.size(); ++i) {
    live[i] += shared[i] - anchor_[i] - (pushed.empty() ? 0.0F : pushed[i]);
    anchor_[i] = shared[i];
  }
}

CAUSEWAY_DECL void server_client::take_back(std::span<const float> pushed, std::span<const hub_work> work,
                                            const hub_terms& terms) {
  for (std::size_t f = 0; f < legs_.size(); ++f) recall(f, work[f], terms);
  for (std::size_t i = 0; i < pushed.size(); ++i) anchor_[i] += pushed[i];
}

CAUSEWAY_DECL void server_client::recall(std::size_t f, hub_work work, const hub_terms& terms) {
  hub_leg& leg = legs_[f];
  if (leg.pending && !leg.spoilt) axis::scatter(terms.cuts[f], leg.at_send, anchor_);
  leg.since = std::max(leg.since, work.steps);
  leg.samples = work.samples;
  leg.steps = work.steps;
  leg.number = 0;
  leg.end_push();
}

CAUSEWAY_DECL void server_client::begin_from(std::span<const float> shared) {
  anchor_.assign(shared.begin(), shared.end());
  for (hub_leg& leg : legs_) {
    leg.since = leg.waited = leg.steps = 0;
    leg.samples = 0;
    leg.end_push();
  }
}

CAUSEWAY_DECL std::vector<std::byte> server_client::farewell() {
  leaving_ = true;
  return with_header(push_header{.word = hub_word::done}, 0);
}

CAUSEWAY_DECL result<void> server_client::poll(const hub_terms& terms) {
  while (!is_local() && last_.empty() && line_->arrived()) CAUSEWAY_TRY(wait(terms));
  return {};
}

CAUSEWAY_DECL result<void> server_client::wait(const hub_terms& terms) {
  const auto bytes = line_->take(terms.deadline);
  if (!bytes) return hub_lost(bytes.error());
  CAUSEWAY_TRY(hear(terms, *bytes));
  if (const auto sent = line_->sweep(); !sent) return hub_lost(sent.error());
  return {};
}

CAUSEWAY_DECL result<void> server_client::hear(const hub_terms& terms, std::span<const std::byte> bytes) {
  CAUSEWAY_ASSIGN(const answer_header h, take_header<answer_header>(bytes, hub_));
  if (h.word == hub_word::refused) return refused(h);
  if (h.word == hub_word::last) {
    if (bytes.size() != anchor_.size() * sizeof(float)) return nonsense();
    last_.resize(anchor_.size());
    return compress::none::decode(terms.pool, bytes, last_);
  }
  if (leaving_) return {};
  if (h.word != hub_word::answer || h.fragment >= legs_.size()) return nonsense();
  hub_leg& leg = legs_[h.fragment];
  const std::size_t size = terms.cuts[h.fragment].size;
  const bool unsound = h.code == static_cast<std::uint32_t>(errc::non_finite);
  if (h.code != 0 && !unsound) return nonsense();
  if (!leg.pending || leg.answered || h.number != leg.number || bytes.size() != size * sizeof(float)) return nonsense();
  leg.answer.resize(size);
  CAUSEWAY_TRY(compress::none::decode(terms.pool, bytes, leg.answer));
  leg.answered = true;
  leg.unsound = unsound;
  leg.answer_steps = h.steps;
  sync_seconds_ = std::max(0.0, seconds(terms.now() - leg.sent_at) - h.held_seconds);
  return {};
}

CAUSEWAY_DECL void server_client::applied(hub_leg& leg) {
  leg.end_push();
  leg.samples = leg.steps = 0;
  if (leg.answer_steps != 0) leg.due_after = leg.answer_steps;
}

CAUSEWAY_DECL void server_client::agree(hub_leg& leg, std::uint64_t taken, const hub_terms& terms) {
  const bool waits = leg.pending && !leg.answered;
  if (waits && taken < leg.number) return line_->send(message_of(leg, terms));
  if (taken <= leg.number) return;
  leg.number = taken;
  leg.fresh = !waits;
  leg.pending = true;
  leg.answered = false;
}

CAUSEWAY_DECL std::vector<std::byte> server_client::message_of(hub_leg& leg, const hub_terms& terms) {
  auto bytes = with_header(leg.header, leg.content.size());
  std::memcpy(bytes.data() + sizeof leg.header, leg.content.data(), leg.content.size());
  leg.sent_at = terms.now();
  return bytes;
}

CAUSEWAY_DECL error server_client::hub_lost(const error& why) const {
  return fail(why.code, hub_name(),
              why.message + ". Without it nobody holds the shared parameters: restart it from its checkpoint");
}

CAUSEWAY_DECL error server_client::refused(const answer_header& h) const {
  return fail(h.code == static_cast<std::uint32_t>(errc::non_finite) ? errc::non_finite : errc::protocol, hub_name(),
              "it could not use what this peer pushed. Look at its log; do all peers run the same model, options and "
              "version, and is this peer's loss still finite?");
}

CAUSEWAY_DECL error server_client::nonsense() const {
  return fail(errc::protocol, hub_name(),
              "its message makes no sense here; do all peers run the same options and version?");
}

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_IMPL_SERVER_CLIENT_IPP
