// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_MIRRORS_HPP
#define CAUSEWAY_COMM_MIRRORS_HPP

// Copies of the parameters that learn of each other's changes without a hub and without a barrier. Every peer adds what it
// computes to its own copy, tells all others of what is significant in it, and adds what it is told when it comes. Peers go
// at their own pace, up to a bound: approximate synchronous parallel, ASP, between the sites of Gaia (Hsieh et al. 2017).

#include <causeway/collective/all_reduce.hpp>
#include <causeway/collective/channels.hpp>
#include <causeway/collective/sum.hpp>
#include <causeway/comm/hub_line.hpp>
#include <causeway/compress/message.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/compress/sparse.hpp>
#include <causeway/compress/threshold.hpp>
#include <causeway/compress/transform.hpp>
#include <causeway/policy/concepts.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm {

struct mirrors_options {
  /// DS: clocks from one on that a peer makes before the others' updates of that one are all here. 1: a barrier in every
  /// step.
  std::uint32_t most_ahead = 4;
};

namespace detail {

enum class mirror_word : std::uint32_t {
  hello = 1,  ///< where my clock is
  barrier,    ///< what follows has something in it and may take long: do not begin a step without it
  updates,    ///< what is significant of the clock's changes, in the codec's message
  done,       ///< nothing more will come
};

/// Of a message between two copies. Plain numbers: hostile until checked.
struct mirror_header {
  mirror_word word = mirror_word::updates;
  std::uint32_t reserved = 0;
  std::uint64_t clock = 0;
};

/// One of the others.
struct mirror {
  static constexpr std::uint64_t no_more = std::numeric_limits<std::uint64_t>::max();

  std::unique_ptr<hub_line> line{};
  bool met = false;             ///< it has said hello
  std::uint64_t known = 0;      ///< its clock whose updates are here; `no_more` when it is done
  std::uint64_t announced = 0;  ///< the last of its clocks that a barrier was for
};

}  // namespace detail

/// After each inner step, which is a clock: x̄ is this peer's copy of what has been told, x its parameters.
///   u = x̄ − x;  sent = what the codec takes of u in this clock;  x̄ ← x̄ − sent;  to all others: sent, and the clock
///   of each `sent` of another: x̄ ← x̄ − sent;  x ← x − sent
/// So updates of n peers add up; the learning rate is to be 1/n of that for their mean.
///
/// - Mirror clock: a peer whose clock is `most_ahead` over the slowest one's that it has heard of waits for that.
/// - Selective barrier: where a line has not carried an earlier clock's updates yet, `barrier` goes before the next ones:
///   the other does not begin a step until these are there. A step reads all parameters, so it waits for whatever is
///   announced, and no places have to be told.
///
/// `finish` adds up what all have computed: equal bits on all peers. So does `start`, so that peers can be restored from
/// checkpoints of different steps: what was under way then counts.
///
/// Codecs: of values, each message by itself; peers at different clocks have no masks in common.
///
/// State: the parameters of the start, the copy, and the sum of what this peer has sent: 12 bytes a parameter; and room for
/// one message of each other peer. Sent in a step: the codec's message and 16 bytes to each other peer, f32 and an
/// all-reduce at the start and at the end. A lost peer is an error that names it.
template <compress::MessageCodec Codec = compress::sparse<compress::no_transform, compress::significant, compress::none>>
  requires(!compress::codec_traits{Codec::traits}.transform && !compress::codec_traits{Codec::traits}.shared_support)
class mirrors {
 public:
  static constexpr std::string_view name = "mirrors";
  static constexpr comm_traits traits{.identical_replicas = false, .rounds_by_steps = false, .rounds_over_stages = true};
  static constexpr std::uint32_t state_version = 1;

  explicit mirrors(mirrors_options options = {}, Codec codec = Codec{}) : options_{options}, codec_{std::move(codec)} {}

  result<void> start(auto& ctx) {
    if (options_.most_ahead == 0) {
      return fail(errc::invalid_argument, "mirrors", "most_ahead is 0; 1 is a barrier in every step");
    }
    CAUSEWAY_TRY(ctx.stages().refuse_copies("mirrors", ctx.exchange_options()));
    const auto parameters = ctx.parameters();
    if (copy_.size() != parameters.size()) {  // not restored from a checkpoint
      origin_.assign(parameters.begin(), parameters.end());
      copy_ = origin_;
      sent_.assign(parameters.size(), 0.0F);
      clock_ = 0;
    }
    CAUSEWAY_TRY(meet(ctx));
    row_.assign(parameters.size(), 0.0F);
    for (std::size_t i = 0; i < row_.size(); ++i) row_[i] = copy_[i] - parameters[i];
    rest_ = sent_;
    CAUSEWAY_TRY(add_up(ctx, rest_));
    for (std::size_t i = 0; i < row_.size(); ++i) parameters[i] = rest_[i] - row_[i];
    copy_ = rest_;
    ctx.parameters_changed();
    return {};
  }

  result<void> before_inner_step(auto&) { return {}; }

  result<void> after_inner_step(auto& ctx) {
    CAUSEWAY_TRY(hear_all(ctx));
    if (!told_) CAUSEWAY_TRY(tell(ctx));
    told_ = true;  // once a step, however often the hook is called
    for (;;) {
      CAUSEWAY_TRY(hear_all(ctx));
      const auto m = std::find_if(others_.begin(), others_.end(), [this](const auto& o) { return is_held_by(o); });
      if (m == others_.end()) break;
      CAUSEWAY_TRY(hear(ctx, *m));
    }
    told_ = false;
    ctx.commit_round(std::span<const float>{});
    return {};
  }

  result<void> finish(auto& ctx) {
    for (detail::mirror& m : others_) say(m, detail::mirror_word::done);
    for (detail::mirror& m : others_) {
      while (m.known != detail::mirror::no_more) CAUSEWAY_TRY(hear(ctx, m));
    }
    for (detail::mirror& m : others_) CAUSEWAY_TRY(m.line->flush(ctx.exchange_options().deadline));
    const auto parameters = ctx.parameters();
    for (std::size_t i = 0; i < copy_.size(); ++i) sent_[i] += copy_[i] - parameters[i];
    rest_ = sent_;
    CAUSEWAY_TRY(add_up(ctx, rest_));
    copy_ = rest_;
    std::copy(copy_.begin(), copy_.end(), parameters.begin());
    ctx.parameters_changed();
    return {};
  }

  void serialize(auto& ar) { ar(origin_, copy_, sent_, clock_); }

  /// Steps that this peer has told the others of.
  [[nodiscard]] std::uint64_t clock() const noexcept { return clock_; }
  /// Barriers that it has sent since it was built.
  [[nodiscard]] std::uint64_t barriers() const noexcept { return barriers_; }
  /// This peer's copy without what it has not sent.
  [[nodiscard]] std::span<const float> shared_parameters() const noexcept { return copy_; }

 private:
  static constexpr std::uint32_t channel = collective::channels::updates;

  // Lines to all others, and where their clocks are.
  result<void> meet(auto& ctx) {
    const std::size_t most = sizeof(detail::mirror_header) + codec_.most_bytes(about(ctx, 0), copy_.size());
    others_.clear();
    for (net::peer_index p = 0; p < ctx.peers(); ++p) {
      if (p == ctx.self()) continue;
      others_.emplace_back().line = std::make_unique<detail::hub_line>(ctx.transport(), p, channel, channel, most);
    }
    for (detail::mirror& m : others_) say(m, detail::mirror_word::hello);
    for (detail::mirror& m : others_) CAUSEWAY_TRY(hear(ctx, m));
    return {};
  }

  /// values ← origin − Σ over all peers of their values; the same bits on all.
  result<void> add_up(auto& ctx, std::span<float> values) {
    if (ctx.peers() > 1) {
      const net::message_id id{.channel = collective::channels::parameters, .step = meetings_++};
      CAUSEWAY_TRY(collective::all_reduce_sum(ctx.transport(), id, values, ctx.exchange_options()));
    }
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = origin_[i] - values[i];
    return {};
  }

  result<void> tell(auto& ctx) {
    const auto parameters = ctx.parameters();
    row_.resize(copy_.size());
    rest_.resize(copy_.size());
    for (std::size_t i = 0; i < row_.size(); ++i) row_[i] = copy_[i] - parameters[i];
    if (!collective::finite_values(row_)) {
      return fail(errc::non_finite, "peer " + std::to_string(ctx.self()),
                  "its parameters are not finite; lower the learning rate, or clip gradients");
    }
    const compress::message_context about_row = about(ctx, clock_);
    std::vector<std::byte> message(sizeof(detail::mirror_header) + codec_.most_bytes(about_row, row_.size()));
    const auto room = std::span{message}.subspan(sizeof(detail::mirror_header));
    const std::size_t bytes = codec_.encode(about_row, row_, room);
    CAUSEWAY_TRY(compress::residual_of(codec_, about_row, row_, std::span<const std::byte>{room}.first(bytes), rest_));
    message.resize(sizeof(detail::mirror_header) + bytes);
    const detail::mirror_header h{.word = detail::mirror_word::updates, .clock = ++clock_};
    std::memcpy(message.data(), &h, sizeof h);
    bool any = false;
    for (std::size_t i = 0; i < row_.size(); ++i) {
      const float sent = row_[i] - rest_[i];
      copy_[i] -= sent;
      sent_[i] += sent;
      any = any || sent != 0;
    }
    for (detail::mirror& m : others_) {
      CAUSEWAY_TRY(m.line->sweep());
      if (any && m.line->is_sending()) {
        say(m, detail::mirror_word::barrier);
        ++barriers_;
      }
      m.line->send(message);
    }
    return {};
  }

  void say(detail::mirror& m, detail::mirror_word word) {
    m.line->send(detail::with_header(detail::mirror_header{.word = word, .clock = clock_}, 0));
  }

  [[nodiscard]] bool is_held_by(const detail::mirror& m) const {
    return m.known < m.announced || (m.known < clock_ && clock_ - m.known >= options_.most_ahead);
  }

  // What has arrived.
  result<void> hear_all(auto& ctx) {
    for (detail::mirror& m : others_) {
      while (m.known != detail::mirror::no_more && m.line->arrived()) CAUSEWAY_TRY(hear(ctx, m));
    }
    return {};
  }

  // The next message of one of the others.
  result<void> hear(auto& ctx, detail::mirror& m) {
    CAUSEWAY_ASSIGN(auto bytes, m.line->take(ctx.exchange_options().deadline));
    CAUSEWAY_ASSIGN(const auto h, detail::take_header<detail::mirror_header>(bytes, m.line->peer()));
    const bool next = h.clock == m.known + 1;
    if (h.word == detail::mirror_word::hello && !m.met) {
      m.met = true;
      m.known = m.announced = h.clock;
    } else if (h.word == detail::mirror_word::barrier && next) {
      m.announced = h.clock;
    } else if (h.word == detail::mirror_word::updates && next) {
      CAUSEWAY_TRY(apply(ctx, m, bytes));
    } else if (h.word == detail::mirror_word::done && h.clock == m.known) {
      m.known = detail::mirror::no_more;
    } else {
      return fail(errc::protocol, "peer " + std::to_string(m.line->peer()),
                  "it sent what makes no sense after its clock " + std::to_string(m.known));
    }
    return {};
  }

  result<void> apply(auto& ctx, detail::mirror& m, std::span<const std::byte> bytes) {
    const compress::message_context about_row = about(ctx, m.known);
    const auto told = codec_.decode_add(about_row, bytes, copy_, -1.0F, {});
    if (!told) {
      return fail(told.error().code, "peer " + std::to_string(m.line->peer()), told.error().text());
    }
    CAUSEWAY_TRY(codec_.decode_add(about_row, bytes, ctx.parameters(), -1.0F, {}));
    ++m.known;
    ctx.parameters_changed();
    return {};
  }

  [[nodiscard]] compress::message_context about(auto& ctx, std::uint64_t round) const {
    return {.pool = ctx.pool(), .round = round, .reference = copy_};
  }

  mirrors_options options_;
  Codec codec_;
  std::vector<float> origin_;  ///< the parameters of the start of the run
  std::vector<float> copy_;    ///< x̄
  std::vector<float> sent_;    ///< in all, by this peer
  std::uint64_t clock_ = 0;
  bool told_ = false;  ///< the others, of the step whose hook is under way

  std::vector<float> row_, rest_;  // working memory
  std::uint64_t meetings_ = 0;
  std::uint64_t barriers_ = 0;
  std::vector<detail::mirror> others_;
};
static_assert(CommunicationPolicy<mirrors<>>);

}}}  // namespace causeway::CAUSEWAY_ABI::comm

#endif  // CAUSEWAY_COMM_MIRRORS_HPP
