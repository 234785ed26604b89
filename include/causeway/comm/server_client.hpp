// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_SERVER_CLIENT_HPP
#define CAUSEWAY_COMM_SERVER_CLIENT_HPP

// The client's side of comm::async_parameter_server: what this peer pulled, what it pushed and waits for. It does not know
// what the parameters below it are: a peer's live ones, or those that a hub shares with its region.

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

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// Of one fragment.
struct hub_leg {
  std::uint32_t since = 0;      ///< inner steps (or pushes from below) since the last push
  std::uint32_t due_after = 0;  ///< as many between two pushes
  std::uint32_t waited = 0;     ///< inner steps since the push that is pending
  std::uint64_t number = 0;     ///< of the last push
  std::uint64_t samples = 0;    ///< trained on since the last answer was applied
  std::uint32_t steps = 0;      ///< in so many inner steps
  std::uint32_t timed = 0;      ///< inner steps computed since the last push, whatever became of what came before
  double compute_seconds = 0;   ///< in these
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

  /// No push is under way any more.
  void end_push() noexcept { pending = answered = fresh = spoilt = unsound = false; }

  void serialize(auto& ar) {
    ar(since, due_after, waited, number, samples, steps, timed, compute_seconds, pending, fresh, answered, answer_steps);
    ar(header.fragment, header.number, header.samples, header.speed, header.sync_seconds, header.wants_answer,
       header.steps);
    ar(content, answer, residual, at_send);
  }
};

/// pushed += sign · (pulled - live) over the parameters of a fragment, whose row is `live`.
CAUSEWAY_DECL void add_pushed(float sign, const axis::fragment& cut, std::span<const float> pulled,
                              std::span<const float> live, std::span<float> pushed);

class server_client {
 public:
  CAUSEWAY_DECL result<void> open(const hub_terms& terms, std::uint32_t level, net::peer_index hub,
                                  std::span<const float> parameters);

  [[nodiscard]] net::peer_index hub() const noexcept { return hub_; }
  [[nodiscard]] bool is_local() const noexcept { return line_ == nullptr; }
  [[nodiscard]] std::vector<hub_leg>& legs() noexcept { return legs_; }
  [[nodiscard]] std::span<float> anchor() noexcept { return anchor_; }
  [[nodiscard]] std::span<const float> anchor() const noexcept { return anchor_; }
  /// All shared parameters, after the hub has said its last word; before, none.
  [[nodiscard]] std::span<const float> last() const noexcept { return last_; }

  // ---- meeting the hub --------------------------------------------------------------------------------------------------

  CAUSEWAY_DECL void greet();

  // ---- among peers that come and go -----------------------------------------------------------------------------------

  /// Waits for the hub's word on which pushes of this peer it has taken.
  CAUSEWAY_DECL result<std::vector<std::uint64_t>> hear_taken(const hub_terms& terms);
  /// Nothing is under way any more, and the hub has taken so many pushes: the next one says how far this peer has come
  /// since the last of them. What it has not taken goes from `pushed`.
  CAUSEWAY_DECL void resume_from(std::span<const std::uint64_t> taken, std::span<float> pushed, const hub_terms& terms);
  /// `pushed` (empty: nothing was) counts for nothing: `live` becomes as far from `shared`, which is pulled, as this peer
  /// has come in all, with `work`, of each fragment.
  CAUSEWAY_DECL void take_back(std::span<const float> pushed, std::span<const float> shared, std::span<float> live,
                               std::span<const hub_work> work, const hub_terms& terms);
  /// The same where what is below stays as it is: what was pulled becomes as far from that.
  CAUSEWAY_DECL void take_back(std::span<const float> pushed, std::span<const hub_work> work, const hub_terms& terms);
  /// Everything pulled, nothing under way.
  CAUSEWAY_DECL void begin_from(std::span<const float> shared);
  void hang_up() { line_.reset(); }

  /// Both sides may have been restored from checkpoints of different moments. A push that the hub does not have is made
  /// again; where the hub has pushes that this peer does not know of any more, it takes the hub's parameters over.
  CAUSEWAY_DECL result<void> agree(const hub_terms& terms);

  // ---- pushing ----------------------------------------------------------------------------------------------------------

  /// The message that says how far `live`, a fragment as one row, has come from what was pulled.
  std::vector<std::byte> compose(const auto& rules, const axis::Residual auto& residual, float rate, const hub_terms& terms,
                                 std::size_t f, std::span<const float> live, bool wants_answer) {
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
                  .speed = leg.compute_seconds > 0 ? leg.timed / leg.compute_seconds : 0,
                  .sync_seconds = sync_seconds_,
                  .wants_answer = wants_answer ? 1U : 0U,
                  .steps = leg.steps};
    encode(rules, residual, terms, leg);
    leg.pending = wants_answer;
    leg.answered = false;
    leg.since = leg.waited = leg.timed = 0;
    leg.compute_seconds = 0;
    return message_of(leg, terms);
  }

  void send(std::vector<std::byte> bytes) { line_->send(std::move(bytes)); }

  /// Nothing more will come from here. Answers are not used any more.
  CAUSEWAY_DECL std::vector<std::byte> farewell();

  // ---- answers ----------------------------------------------------------------------------------------------------------

  /// Takes in what has arrived, without waiting.
  CAUSEWAY_DECL result<void> poll(const hub_terms& terms);

  /// Waits for one message of the hub.
  CAUSEWAY_DECL result<void> wait(const hub_terms& terms);

  CAUSEWAY_DECL result<void> hear(const hub_terms& terms, std::span<const std::byte> bytes);

  /// The answer for fragment f was used.
  CAUSEWAY_DECL void applied(hub_leg& leg);

  void serialize(auto& ar) {
    std::uint64_t count = legs_.size();
    ar(anchor_, count, sync_seconds_);
    if (legs_.size() > count) legs_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {  // one by one: a count without bytes behind it takes no memory
      if (i == legs_.size()) legs_.emplace_back();
      ar(legs_[i]);
    }
  }

 private:
  CAUSEWAY_DECL void agree(hub_leg& leg, std::uint64_t taken, const hub_terms& terms);
  /// No push of fragment f was ever made: all of `work` is still to be said.
  CAUSEWAY_DECL void recall(std::size_t f, hub_work work, const hub_terms& terms);

  CAUSEWAY_DECL std::vector<std::byte> message_of(hub_leg& leg, const hub_terms& terms);

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
  CAUSEWAY_DECL [[nodiscard]] error hub_lost(const error& why) const;
  CAUSEWAY_DECL [[nodiscard]] error refused(const answer_header& h) const;
  CAUSEWAY_DECL [[nodiscard]] error nonsense() const;

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

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/comm/impl/server_client.ipp>
#endif

#endif  // CAUSEWAY_COMM_SERVER_CLIENT_HPP
