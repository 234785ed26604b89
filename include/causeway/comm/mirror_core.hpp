// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_MIRROR_CORE_HPP
#define CAUSEWAY_COMM_MIRROR_CORE_HPP

// The arithmetic of comm::mirrors: what of its own changes, and of those that it passes on, a peer tells whom, and what it
// makes of what it is told.

#include <causeway/collective/sum.hpp>
#include <causeway/comm/mirror_lines.hpp>
#include <causeway/compress/message.hpp>
#include <causeway/core/result.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// Of one peer, with one audience or, for a hub of a group, two: its group first, then the other hubs. What one of the two
/// tells it has not been told to the other: so it is in what that one is told next. Where peers come and go a hub tells its
/// group apart what it computed and what it passes on: if it is lost, the first counts as far as it was heard, and the
/// other by those who computed it.
template <class Codec>
struct mirror_core {
  Codec codec;
  std::vector<float> origin{};  ///< the parameters of the start of the run, or of the last record
  std::vector<float>
      sent{};  ///< since then, to the first audience, less what others told this peer for it: its own changes
  std::vector<mirror_audience> audiences = std::vector<mirror_audience>(1);
  std::vector<float> relayed{};  ///< of what other hubs told, what its group has not been told; empty: it is not kept apart
  std::uint64_t clock = 0;       ///< that it has told the others of
  bool outlives_others = false;  ///< who is lost is told no more, and no error
  bool passes_on = false;        ///< it was told what another audience does not know yet

  std::vector<float> row{}, rest{};  ///< working memory

  void begin(std::span<const float> parameters) {
    move_origin(parameters);
    audiences[0].copy = origin;
    clock = 0;
  }

  /// row ← what this peer has computed by itself since the origin, told or not.
  void gather_own(std::span<const float> parameters) {
    row.resize(origin.size());
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = sent[i] + (audiences[0].copy[i] - parameters[i]);
  }

  /// The parameters, and what everybody knows of them, are the origin less the row.
  void settle(auto& ctx) {
    subtract_row(ctx);
    const auto parameters = ctx.parameters();
    for (mirror_audience& a : audiences) a.copy.assign(parameters.begin(), parameters.end());
    relayed.assign(relayed.size(), 0.0F);
    passes_on = false;
  }
  /// The parameters are the origin less the row, of which nobody knows; and nothing has been told since the origin.
  void restart(auto& ctx) {
    subtract_row(ctx);
    audiences[0].copy = origin;
    sent.assign(origin.size(), 0.0F);
  }
  /// What all hold alike now is what others start from.
  void move_origin(std::span<const float> parameters) {
    origin.assign(parameters.begin(), parameters.end());
    sent.assign(origin.size(), 0.0F);
  }

  /// From the origin on, which are the parameters, it has so many audiences; what it passes on is kept apart.
  void begin_audiences(std::size_t count) {
    audiences.resize(count);
    for (mirror_audience& a : audiences) a.copy = origin;
    relayed.assign(count > 1 ? origin.size() : 0, 0.0F);
  }
  /// Nobody is told anything.
  void hang_up() {
    audiences.resize(1);
    audiences[0].mirrors.clear();
    relayed.clear();
    passes_on = false;
  }
  [[nodiscard]] bool is_in_reach() const {
    return std::any_of(audiences.begin(), audiences.end(), [](const mirror_audience& a) { return a.is_in_reach(); });
  }

  [[nodiscard]] std::size_t most_bytes(auto& ctx) const {
    return sizeof(mirror_header) + codec.most_bytes(about(ctx, 0, audiences[0]), origin.size());
  }

  /// What is significant of what each audience does not know, with the next clock; `note(updates)` of the first's.
  result<void> tell(auto& ctx, auto&& note) {
    for (mirror_audience& a : audiences) {
      if (a.is_over) continue;
      bool any = false;
      CAUSEWAY_ASSIGN(const auto apart, is_first(a) ? compose_relayed(ctx, any) : result<bytes>{bytes{}});
      CAUSEWAY_ASSIGN(const auto message, compose(ctx, a, mirror_word::updates, any));
      if (is_first(a)) note(std::span{message}.subspan(sizeof(mirror_header)));
      CAUSEWAY_TRY(send_all(a, apart, message, any));
    }
    ++clock;
    passes_on = false;
    return {};
  }

  /// By a hub that makes no step, to whom it tells apart what it computed and what not: what is significant of the others'.
  result<void> pass_on(auto& ctx) {
    passes_on = false;
    for (mirror_audience& a : audiences) {
      bool any = false;
      CAUSEWAY_ASSIGN(const auto apart,
                      is_first(a) ? compose_relayed(ctx, any) : compose(ctx, a, mirror_word::passed_on, any));
      if (any) CAUSEWAY_TRY(send_all(a, apart, {}, false));
    }
    return {};
  }

  /// The next message of one of an audience, whose updates are applied.
  result<mirror_news> hear(auto& ctx, mirror_audience& a, mirror& m, time_point deadline) {
    CAUSEWAY_ASSIGN(const auto news, m.hear(deadline));
    if (news.word != mirror_word::updates && news.word != mirror_word::passed_on) return news;
    if (const auto added = add(ctx, a, news.updates, m.known); !added) {
      return fail(added.error().code, "peer " + std::to_string(m.line->peer()), added.error().text());
    }
    if (news.word == mirror_word::updates) ++m.known;
    return news;
  }

  /// What a message said counts no more.
  void take_back(auto& ctx, std::span<const std::byte> updates) {
    (void)add(ctx, audiences[0], updates, clock, 1.0F);  // it was decoded before
  }

  /// sum ← sum + weight · what a message says.
  result<void> decode_add(auto& ctx, std::span<const std::byte> message, std::span<float> sum, float weight) const {
    return codec.decode_add(about(ctx, clock, audiences[0]), message, sum, weight, {});
  }

  void serialize(auto& ar) { ar(origin, audiences[0].copy, sent, clock); }

 private:
  using bytes = std::vector<std::byte>;

  [[nodiscard]] bool is_first(const mirror_audience& a) const { return &a == audiences.data(); }

  void subtract_row(auto& ctx) {
    const std::span<float> parameters = ctx.parameters();
    for (std::size_t i = 0; i < origin.size(); ++i) parameters[i] = origin[i] - row[i];
    ctx.parameters_changed();
  }

  [[nodiscard]] static compress::message_context about(auto& ctx, std::uint64_t round, const mirror_audience& a) {
    return {.pool = ctx.pool(), .round = round, .reference = a.copy};
  }

  // What an audience does not know; without what the first is told apart.
  result<bytes> compose(auto& ctx, mirror_audience& a, mirror_word word, bool& any) {
    const auto parameters = ctx.parameters();
    row.resize(a.copy.size());
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = a.copy[i] - parameters[i];
    if (is_first(a)) {
      for (std::size_t i = 0; i < relayed.size(); ++i) row[i] -= relayed[i];
    }
    if (!collective::finite_values(row)) {
      return fail(errc::non_finite, "peer " + std::to_string(ctx.self()),
                  "its parameters are not finite; lower the learning rate, or clip gradients");
    }
    return message_of_row(ctx, a, word, any);
  }

  // What the first audience is told apart; nothing where nothing is significant.
  result<bytes> compose_relayed(auto& ctx, bool& any) {
    if (relayed.empty()) return bytes{};
    row = relayed;
    CAUSEWAY_ASSIGN(auto message, message_of_row(ctx, audiences[0], mirror_word::passed_on, any));
    relayed = rest;
    if (!any) message.clear();
    return message;
  }

  // What is significant of the row is told; the rest stays in `rest`.
  result<bytes> message_of_row(auto& ctx, mirror_audience& a, mirror_word word, bool& any) {
    const compress::message_context about_row = about(ctx, clock, a);
    const mirror_header h{.word = word, .clock = word == mirror_word::updates ? clock + 1 : clock};
    auto message = with_header(h, codec.most_bytes(about_row, row.size()));
    const auto room = std::span{message}.subspan(sizeof h);
    const std::size_t size = codec.encode(about_row, row, room);
    rest.resize(row.size());
    CAUSEWAY_TRY(compress::residual_of(codec, about_row, row, std::span<const std::byte>{room}.first(size), rest));
    message.resize(sizeof h + size);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const float told = row[i] - rest[i];
      a.copy[i] -= told;
      if (is_first(a)) sent[i] += told;
      any = any || told != 0;
    }
    return message;
  }

  // Messages that are empty are none.
  result<void> send_all(mirror_audience& a, const bytes& apart, const bytes& message, bool any) {
    for (mirror& m : a.mirrors) {
      if (!m.line) continue;
      const auto outcome = send(m, apart, message, any);
      if (!outcome && !outlives_others) return outcome;
      if (!outcome) m.line.reset();
    }
    return {};
  }

  // Where a line has not carried what went before, a barrier goes first.
  result<void> send(mirror& m, const bytes& apart, const bytes& message, bool any) {
    CAUSEWAY_TRY(m.line->sweep());
    if (any && m.line->is_sending()) m.say(mirror_word::barrier, clock + 1);
    if (!apart.empty()) m.line->send(apart);
    if (!message.empty()) m.line->send(message);
    return {};
  }

  result<void> add(auto& ctx, mirror_audience& a, std::span<const std::byte> message, std::uint64_t round,
                   float weight = -1.0F) {
    const auto about_row = about(ctx, round, a);
    CAUSEWAY_TRY(codec.decode_add(about_row, message, a.copy, weight, {}));
    CAUSEWAY_TRY(codec.decode_add(about_row, message, ctx.parameters(), weight, {}));
    if (!is_first(a)) CAUSEWAY_TRY(codec.decode_add(about_row, message, sent, -1.0F, {}));
    if (!is_first(a) && !relayed.empty()) CAUSEWAY_TRY(codec.decode_add(about_row, message, relayed, 1.0F, {}));
    passes_on = audiences.size() > 1;
    ctx.parameters_changed();
    return {};
  }
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_MIRROR_CORE_HPP
