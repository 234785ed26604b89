// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_HUB_LINK_HPP
#define CAUSEWAY_COMM_HUB_LINK_HPP

// The client's side of comm::on_arrival: what this peer pulled, what it pushed and waits for. It does not know what the
// parameters below it are: a peer's live ones, or those that a hub shares with its region.

#include <causeway/axis/fragments.hpp>
#include <causeway/axis/residual.hpp>
#include <causeway/comm/hub_line.hpp>
#include <causeway/comm/hub_rules.hpp>
#include <causeway/compress/message.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::comm::detail {

/// Of one fragment.
struct hub_leg {
  std::uint32_t since = 0;      ///< inner steps (or pushes from below) since the last push
  std::uint32_t due_after = 0;  ///< as many between two pushes
  std::uint32_t waited = 0;     ///< inner steps since the push that is pending
  std::uint64_t number = 0;     ///< of the last push
  std::uint64_t samples = 0;    ///< trained on since
  double compute_seconds = 0;   ///< computed since
  bool pending = false;         ///< a push was made, its answer not used yet
  bool fresh = false;           ///< what was pulled replaces the live values: the hub knew more of this peer than it did
  bool answered = false;        ///< `answer` is here
  bool spoilt = false;          ///< what was pushed is not finite, and was given up
  bool unsound = false;         ///< the hub could not use the push
  std::uint32_t answer_steps = 0;
  push_header header;  ///< of the last push, and its content: for saying it again
  std::vector<std::uint8_t> content;
  std::vector<float> answer;
  std::vector<float> residual;
  std::vector<float> at_send;
  time_point sent_at{};

  void serialize(auto& ar) {
    ar(since, due_after, waited, number, samples, compute_seconds, pending, fresh, answered, answer_steps);
    ar(header.fragment, header.number, header.samples, header.speed, header.sync_seconds, header.wants_answer);
    ar(content, answer, residual, at_send);
  }
};

class hub_link {
 public:
  result<void> open(const hub_terms& terms, std::uint32_t level, net::peer_index hub, std::span<const float> parameters) {
    if (anchor_.empty()) {
      anchor_.assign(parameters.begin(), parameters.end());
      legs_.resize(terms.cuts.size());
    }
    if (anchor_.size() != parameters.size() || legs_.size() != terms.cuts.size()) {
      return fail(errc::wrong_model, "on_arrival",
                  "the checkpoint was written with other fragments or another model; start with the settings it had");
    }
    level_ = level;
    hub_ = hub;
    if (hub == terms.transport.self()) return {};
    const std::size_t most =
        sizeof(answer_header) + std::max(anchor_.size() * sizeof(float), legs_.size() * sizeof(std::uint64_t));
    line_ = std::make_unique<hub_line>(terms.transport, hub, hub_channel(level), hub_channel(level) + 1, most);
    return {};
  }

  [[nodiscard]] net::peer_index hub() const noexcept { return hub_; }
  [[nodiscard]] bool is_local() const noexcept { return line_ == nullptr; }
  [[nodiscard]] std::vector<hub_leg>& legs() noexcept { return legs_; }
  [[nodiscard]] std::span<float> anchor() noexcept { return anchor_; }
  [[nodiscard]] std::span<const float> anchor() const noexcept { return anchor_; }
  /// All shared parameters, after the hub has said its last word; before, none.
  [[nodiscard]] std::span<const float> last() const noexcept { return last_; }

  // ---- meeting the hub --------------------------------------------------------------------------------------------------

  void greet() {
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

  /// Both sides may have been restored from checkpoints of different moments. A push that the hub does not have is made
  /// again; where the hub has pushes that this peer does not know of any more, it takes the hub's parameters over.
  result<void> agree(const hub_terms& terms) {
    if (is_local()) return {};
    auto bytes = line_->take(terms.deadline);
    if (!bytes) return hub_lost(bytes.error());
    CAUSEWAY_ASSIGN(const answer_header h, take_header<answer_header>(*bytes, hub_));
    if (h.word == hub_word::refused) return refused(h);
    if (h.word != hub_word::hello || bytes->size() != legs_.size() * sizeof(std::uint64_t)) return nonsense();
    for (std::size_t f = 0; f < legs_.size(); ++f) {
      std::uint64_t taken = 0;
      std::memcpy(&taken, bytes->data() + f * sizeof taken, sizeof taken);
      agree(legs_[f], taken, terms);
    }
    return {};
  }

  // ---- pushing ----------------------------------------------------------------------------------------------------------

  /// The message that says how far `live`, a fragment as one row, has come from what was pulled.
  template <axis::Residual R>
  std::vector<std::byte> compose(const auto& rules, const R& residual, float rate, const hub_terms& terms, std::size_t f,
                                 std::span<const float> live, bool wants_answer) {
    hub_leg& leg = legs_[f];
    row_.resize(live.size());
    axis::gather(terms.cuts[f], anchor_, row_);
    reference_ = row_;
    kernels::axpy(terms.pool, row_.data(), -1.0F, live.data(), static_cast<std::int64_t>(live.size()));
    add_residual(residual, rate, leg);
    leg.header = {.word = hub_word::push,
                  .fragment = static_cast<std::uint32_t>(f),
                  .number = ++leg.number,
                  .samples = leg.samples,
                  .speed = leg.compute_seconds > 0 ? leg.since / leg.compute_seconds : 0,
                  .sync_seconds = sync_seconds_,
                  .wants_answer = wants_answer ? 1U : 0U};
    encode(rules, residual, terms, leg);
    leg.pending = wants_answer;
    leg.answered = false;
    leg.since = leg.waited = 0;
    leg.samples = 0;
    leg.compute_seconds = 0;
    return message_of(leg, terms);
  }

  void send(std::vector<std::byte> bytes) { line_->send(std::move(bytes)); }

  /// Nothing more will come from here. Answers are not used any more.
  std::vector<std::byte> farewell() {
    leaving_ = true;
    return with_header(push_header{.word = hub_word::done}, 0);
  }

  // ---- answers ----------------------------------------------------------------------------------------------------------

  /// Takes in what has arrived, without waiting.
  result<void> poll(const hub_terms& terms) {
    while (!is_local() && last_.empty() && line_->arrived()) CAUSEWAY_TRY(wait(terms));
    return {};
  }

  /// Waits for one message of the hub.
  result<void> wait(const hub_terms& terms) {
    const auto bytes = line_->take(terms.deadline);
    if (!bytes) return hub_lost(bytes.error());
    CAUSEWAY_TRY(hear(terms, *bytes));
    if (const auto sent = line_->sweep(); !sent) return hub_lost(sent.error());
    return {};
  }

  result<void> hear(const hub_terms& terms, std::span<const std::byte> bytes) {
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

  /// The answer for fragment f was used.
  void landed(hub_leg& leg) {
    leg.pending = leg.answered = leg.fresh = leg.spoilt = leg.unsound = false;
    if (leg.answer_steps != 0) leg.due_after = leg.answer_steps;
  }

  void serialize(auto& ar) {
    std::uint64_t count = legs_.size();
    ar(anchor_, count, sync_seconds_);
    legs_.resize(count);
    for (hub_leg& leg : legs_) ar(leg);
  }

 private:
  void agree(hub_leg& leg, std::uint64_t taken, const hub_terms& terms) {
    const bool waits = leg.pending && !leg.answered;
    if (waits && taken < leg.number) return line_->send(message_of(leg, terms));
    if (taken <= leg.number) return;
    leg.number = taken;
    leg.fresh = !waits;
    leg.pending = true;
    leg.answered = false;
  }

  std::vector<std::byte> message_of(hub_leg& leg, const hub_terms& terms) {
    auto bytes = with_header(leg.header, leg.content.size());
    std::memcpy(bytes.data() + sizeof leg.header, leg.content.data(), leg.content.size());
    leg.sent_at = terms.now();
    return bytes;
  }

  template <axis::Residual R>
  void add_residual(const R& policy, float rate, const hub_leg& leg) {
    if constexpr (R::keeps == axis::keeping::in_a_buffer) {
      const float gain = policy.gain(rate);
      const float decay = policy.decay();
      for (std::size_t i = 0; i < row_.size(); ++i) {
        row_[i] = gain * row_[i] + (leg.residual.empty() ? 0.0F : decay * leg.residual[i]);
      }
    }
  }

  /// content ← the encoded row; residual ← what that leaves out.
  template <axis::Residual R>
  void encode(const auto& rules, const R&, const hub_terms& terms, hub_leg& leg) {
    compress::message_context about = terms.about(level_, leg.header.fragment);
    about.own_seed = mix(about.seed, terms.transport.self() + 1, leg.number);
    about.round = leg.number - 1;
    about.reference = reference_;
    leg.content.resize(rules.codec.most_bytes(about, row_.size()));
    leg.content.resize(rules.codec.encode(about, row_, std::as_writable_bytes(std::span{leg.content})));
    if constexpr (R::keeps == axis::keeping::in_a_buffer) {
      leg.residual.resize(row_.size());
      const auto bytes = std::as_bytes(std::span{leg.content});
      // Values that are not finite: the hub cannot use them, and says so.
      if (!compress::residual_of(rules.codec, about, row_, bytes, leg.residual)) leg.residual.assign(row_.size(), 0.0F);
    }
  }

  [[nodiscard]] std::string hub_name() const { return "peer " + std::to_string(hub_) + ", the hub"; }
  [[nodiscard]] error hub_lost(const error& why) const {
    return fail(why.code, hub_name(),
                why.message + ". Without it nobody holds the shared parameters: restart it from its checkpoint");
  }
  [[nodiscard]] error refused(const answer_header& h) const {
    return fail(h.code == static_cast<std::uint32_t>(errc::non_finite) ? errc::non_finite : errc::protocol, hub_name(),
                "it could not use what this peer pushed. Look at its log; do all peers run the same model, options and "
                "version, and is this peer's loss still finite?");
  }
  [[nodiscard]] error nonsense() const {
    return fail(errc::protocol, hub_name(),
                "its message makes no sense here; do all peers run the same options and version?");
  }

  std::uint32_t level_ = 0;
  net::peer_index hub_ = 0;
  std::vector<float> anchor_;  ///< the shared parameters as they were pulled last
  std::vector<hub_leg> legs_;
  std::vector<float> last_;
  double sync_seconds_ = 0;
  bool leaving_ = false;

  std::vector<float> row_;  // working memory
  std::vector<float> reference_;
  std::unique_ptr<hub_line> line_;  ///< none where this peer is the hub
};

}  // namespace causeway::inline CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_HUB_LINK_HPP
