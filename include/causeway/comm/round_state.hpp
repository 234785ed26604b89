// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_ROUND_STATE_HPP
#define CAUSEWAY_COMM_ROUND_STATE_HPP

// What comm::rounds keeps for one fragment: its counters, its outer optimizer, what a lossy codec left out, and the
// conversation under way. A conversation is begun with `input`, which is kept while it lasts, so that it can be begun again
// after a failure or from a checkpoint; nothing else changes before its result is here. Rows lie where the policy says; the
// arithmetic on them is the context's.

#include <causeway/axis/exchange.hpp>
#include <causeway/axis/fragments.hpp>
#include <causeway/axis/groups.hpp>
#include <causeway/axis/residual.hpp>
#include <causeway/collective/exchange.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/comm/meeting_places.hpp>
#include <causeway/compress/message.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/tensor/buffer.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// The collective that a recipe makes; nothing where the context does the work.
template <class Recipe>
struct exchange_of {
  using type = decltype(std::declval<const Recipe&>().make());
};
template <class Recipe>
  requires axis::by_context<Recipe>
struct exchange_of<Recipe> {
  struct type {};
};

/// What a conversation is about.
struct talk_terms {
  std::vector<net::peer_index> members;  ///< of the group, ascending
  std::uint32_t contributors = 0;        ///< among them
  float rescale = 1;                     ///< of a contributor's row, so that the mean over all is the one over them
  bool contributes = true;               ///< this peer
  float weight = 1;                      ///< of its row, if it does
  float length = 1;                      ///< that the mean is made longer by, once
  std::uint64_t seed = 0;                ///< of the exchange
  net::message_id id;
  std::uint64_t part = 0;  ///< of the attempt, where the context exchanges
  std::span<const float> reference;
  bool only_takes = false;  ///< this peer, of a block's row: it keeps the block, and another one puts in what it has
};

/// Whose rows count, this peer's among them. Lots are drawn among those with something to say: else nobody might be left
/// who has.
template <class Context, class Participation>
void draw_lots(Context& ctx, const Participation& participation, talk_terms& terms, axis::group_question q) {
  const meeting_places places{ctx};
  const net::peer_index self = std::exchange(q.self, 0), all = std::exchange(q.peers, 0);
  const auto speaks = [&](net::peer_index p) { return places.share_of(p) > 0; };
  for (net::peer_index p = 0; p < all; ++p) q.peers += speaks(p) ? 1 : 0;
  terms.contributors = 0;
  bool drawn = false;
  double share = 0;
  for (net::peer_index p = 0; p < all; ++p) {
    if (!speaks(p)) continue;
    const bool counts = participation.contributes(q);
    ++q.self;
    if (!counts || !std::binary_search(terms.members.begin(), terms.members.end(), p)) continue;
    ++terms.contributors;
    drawn = drawn || p == self;
    share += places.share_of(p);
  }
  terms.contributes = terms.contributes && drawn;
  if (terms.contributors > 0) terms.rescale = static_cast<float>(1.0 / share);
}

template <class Recipe, class Outer, class Group>
struct round_state {
  using exchange_type = typename exchange_of<Recipe>::type;

  const axis::fragment* cut = nullptr;
  std::size_t tensor = 0;
  std::size_t part = 0;       ///< its number among the fragments, or where these have modules, among those
  std::size_t fragment = 0;   ///< that it is, or is a module of
  std::span<float> module{};  ///< where the module's shared values are (comm/path_modules.hpp)
  bool elsewhere = false;     ///< it is a module that this peer's path has not
  std::vector<compress::matrix_range> matrices;  ///< of a whole row: the fragment's, once for each vector in it
  Outer outer;
  std::optional<Outer> own_outer;  ///< of this peer's own part, where peers come and go and it is applied early
  Group group_axis;
  std::uint32_t since = 0;     ///< inner steps since the last exchange
  std::uint64_t samples = 0;   ///< trained on in them
  std::uint64_t behind = 0;    ///< those that `input` is of; in a checkpoint where it may wait there (comm::rounds)
  double compute_seconds = 0;  ///< that they took; only where the trigger follows speed
  std::uint64_t due_at = 0;    ///< the inner step of the run after which the next one is due
  std::uint64_t number = 0;    ///< of the next exchange
  std::uint64_t own_at = 0;    ///< exchanges behind this peer's own parameters; only in groups, where peers come and go
  source_vector<float> residual;

  bool pending = false;  ///< a conversation is under way
  bool begun = false;    ///< its messages are on their way; false after a failure or a restart
  bool turned = false;
  std::uint32_t waited = 0;  ///< inner steps since it began
  std::uint64_t parent = 0;
  source_vector<float> input;
  source_vector<float> at_send;
  /// For merge rules of a round: `late` is the mean of the round before, `own_late` this peer's part.
  bool arrived = false;
  source_vector<float> late;
  source_vector<float> own_late;

  // Not part of a checkpoint.
  source_vector<float> row;
  source_vector<float> next_residual;
  source_vector<float> counts;
  source_vector<float> reference;
  std::size_t squares_at = 0;    ///< in round_core::squares, where the trigger asks how far the whole model moves
  std::uint64_t planned_at = 0;  ///< the measurement of links that its exchange follows
  talk_terms terms;
  // Before the exchange, which refers to them.
  std::unique_ptr<net::any_transport> view;
  net::any_transport* group = nullptr;
  collective::collective_options options;
  std::optional<exchange_type> exchange;

  [[nodiscard]] std::size_t size() const noexcept { return cut->size; }

  /// An exchange begins: what is trained from now on is for the next.
  void restart() noexcept {
    since = 0;
    samples = 0;
    compute_seconds = 0;
  }

  /// The same, and its row waits, or is on its way, during the steps that follow.
  void leave_pending() noexcept {
    pending = true;
    waited = 0;
    restart();
  }

  /// What a row counts by, of a policy that `weighs` rows or not.
  [[nodiscard]] std::uint64_t counts_as(auto& ctx, bool weighs) const {
    return weighs || ctx.contribution().divides_batches() ? behind : 1;
  }
  /// Whether a row that is made now would count for nothing, and may not wait: later all who exchange might have such ones.
  [[nodiscard]] bool is_of_nothing(auto& ctx) const { return samples == 0 && ctx.contribution().divides_batches(); }

  void serialize(auto& ar) {
    ar(since, samples, compute_seconds, due_at, number, residual, pending, waited, parent, input, at_send, arrived, late,
       own_late, outer, group_axis);
    if constexpr (Recipe::traits.stateful) ar(*exchange);
  }

  /// Where its rows are to lie from now on.
  void keep_in(const memory_source& memory) {
    for (auto* values : {&residual, &input, &at_send, &late, &own_late, &row, &next_residual, &counts, &reference}) {
      move_to(memory, *values);
    }
    if constexpr (requires { outer.keep_in(memory); }) outer.keep_in(memory);
  }

  /// In place of a row, which others do not count.
  result<void> compose_nothing(auto& ctx) {
    input.resize(size());
    return ctx.rows().zero(input);
  }

  /// x ← β·e + η·x, in `input`, which holds x.
  template <axis::Residual R, class Context>
  result<void> add_residual(Context& ctx, const R& policy) {
    if constexpr (R::keeps == axis::keeping::in_a_buffer) {
      const float gain = policy.gain(ctx.next_learning_rate());
      if (!residual.empty()) return ctx.rows().blend(input, gain, residual, policy.decay());
      return gain == 1.0F ? result<void>{} : ctx.rows().scale(input, gain);
    }
    return {};
  }

  /// Where rows are of single blocks: this one goes to and from those who hold its block, of the replicas that meet. Who
  /// keeps a block that another of its replica computes takes what comes of it.
  void meet_holders(auto& ctx, bool draws_lots) {
    const auto& entry = ctx.entry();
    const auto* const holders = entry.holders_of(cut->block);
    if (holders == nullptr) return;
    const auto replicas = std::exchange(terms.members, {});
    double all = 0, own = 0;
    for (std::size_t i = 0; i < holders->members.size(); ++i) {
      const net::peer_index peer = holders->members[i];
      if (!std::binary_search(replicas.begin(), replicas.end(), entry.replicas[peer])) continue;
      terms.members.push_back(peer);
      all += holders->shares[i];
      if (peer == ctx.self()) own = holders->shares[i];
    }
    if (terms.members.size() == holders->members.size()) all = 1;
    const bool by_samples = ctx.contribution().divides_batches();  // those that it is of, which it has already
    if (own > 0 && !by_samples) terms.weight = static_cast<float>(own / all * static_cast<double>(terms.members.size()));
    terms.only_takes = own == 0;
    terms.contributes = terms.contributes && own > 0;
    if (!draws_lots) terms.contributors = static_cast<std::uint32_t>(terms.members.size());
  }

  void cancel() {
    if constexpr (!axis::by_context<Recipe>) exchange->cancel();
  }

  /// Sends `input` on its way.
  template <class Context>
  result<void> begin(Context& ctx, bool wants_residual, bool wants_counts) {
    begun = turned = false;
    if (ctx.result_is_known()) return begin_at_result(ctx, wants_residual, wants_counts);
    row.resize(input.size());
    CAUSEWAY_TRY(ctx.rows().copy(row, input));
    next_residual.resize(wants_residual ? row.size() : 0);
    CAUSEWAY_TRY(ctx.rows().zero(next_residual));
    counts.resize(wants_counts ? row.size() : 0);
    CAUSEWAY_TRY(ctx.rows().zero(counts));
    if (!talks()) std::fill(counts.begin(), counts.end(), 1.0F);
    if constexpr (!axis::by_context<Recipe>) {
      if (talks()) {
        open_group(ctx);
        CAUSEWAY_TRY(failing(ctx, exchange->begin(port(ctx), exchange_row(), message_context(ctx))));
      }
    }
    begun = true;
    return {};
  }

  /// The mean of an earlier attempt is in `row` still, and what else came of that exchange is where it was.
  result<void> begin_at_kept() {
    begun = turned = true;
    return {};
  }

  /// Reduces what has arrived and sends it on; waits for it where it has not.
  result<void> turn(auto& ctx) {
    if constexpr (!axis::by_context<Recipe>) {
      if (talks() && !ctx.result_is_known()) {
        CAUSEWAY_TRY(failing(ctx, exchange->turn(port(ctx), exchange_row(), message_context(ctx))));
      }
    }
    turned = true;
    return {};
  }

  /// Leaves the mean in `row`. Alone, that is what this peer put in, unless the exchange does something to one row, too.
  /// `where`: the parts of the gradient that the row is of, if it is of that.
  result<void> finish(auto& ctx, const Recipe& recipe, const std::vector<index_range>* where) {
    if constexpr (axis::by_context<Recipe>) {
      return failing(ctx, mean_by_context(ctx, recipe, where));
    } else {
      const bool known = ctx.result_is_known();
      if (talks() && !known) {
        CAUSEWAY_TRY(failing(ctx, exchange->finish(port(ctx), exchange_row(), message_context(ctx))));
      } else if constexpr (requires { exchange->alone(exchange_row(), message_context(ctx)); }) {
        if (!known && !row.empty()) CAUSEWAY_TRY(failing(ctx, exchange->alone(exchange_row(), message_context(ctx))));
      }
      if constexpr (has_factors) return failing(ctx, ctx.left_exchange(row, exchange->factors(), where));
      return failing(ctx, ctx.left_exchange(row, counts, where));
    }
  }

 private:
  // Of what comes of an exchange the row is not all: how it was made, too.
  static constexpr bool has_factors = requires(exchange_type & e) { e.factors(); };

  // Of a fragment of which this stage of the model has nothing there is nothing to say.
  [[nodiscard]] bool talks() const noexcept {
    const bool changes_one = Recipe::traits.changes_one && terms.contributes;
    return (terms.members.size() > 1 || changes_one) && !row.empty();
  }

  // Who is in the result left out of its row what it left out then; who is not put nothing in.
  result<void> begin_at_result(auto& ctx, bool wants_residual, bool wants_counts) {
    std::vector<float> sent;
    if constexpr (has_factors) sent.assign(row.begin(), row.end());  // if that attempt did not come to its end here
    row.resize(input.size());
    counts.resize(wants_counts ? row.size() : 0);
    next_residual.resize(wants_residual ? row.size() : 0);
    CAUSEWAY_TRY(take_result(ctx, std::move(sent)));
    begun = true;
    const bool is_in_it = axis::by_context<Recipe> ? ctx.own_weight() > 0 : terms.contributes;
    if (is_in_it || next_residual.empty()) return {};
    return residual.empty() ? ctx.rows().zero(next_residual) : ctx.rows().copy(next_residual, residual);
  }

  result<void> take_result(auto& ctx, std::vector<float> sent) {
    if constexpr (axis::by_context<Recipe>) {
      return ctx.rows().copy(row, input);  // which takes it
    } else {
      CAUSEWAY_TRY(failing(ctx, ctx.take_known_result(row, 2 * terms.part)));
      const std::uint64_t next = 2 * terms.part + 1;
      if constexpr (!has_factors) return failing(ctx, ctx.take_known_result(counts, next));
      if constexpr (has_factors) {
        CAUSEWAY_TRY(failing(ctx, ctx.take_known_result(exchange->factors(), next)));
        sent.resize(row.size());
        exchange->adopt(std::move(sent), exchange_row(), ctx.pool());
      }
      return {};
    }
  }

  result<void> failing(auto& ctx, result<void> outcome) {
    outcome = ctx.or_unusable(ctx.or_device_error(std::move(outcome)));
    if (!outcome) begun = false;
    return outcome;
  }

  result<void> mean_by_context(auto& ctx, const Recipe& recipe, const std::vector<index_range>* where) {
    const bool is_kept = ctx.entry().keeps_rows();  // this one is there still
    if (row.empty() || is_kept) return ctx.left_exchange(row, {}, where);
    if (!next_residual.empty() && terms.members.size() > 1 && !ctx.result_is_known()) {
      auto found = find_residual(ctx, recipe);
      if (!found) found.error().culprit = ctx.self();
      if (!found) return found;
    }
    const auto* const holders = ctx.entry().holders_of(cut->block);
    if (ctx.contribution().divides_batches() && !ctx.result_is_known()) {
      CAUSEWAY_ASSIGN(const auto told, ctx.told_samples(terms.contributes ? behind : 0, terms.part, holders));
      return ctx.mean(recipe.codec, row, terms.part, &told, where);
    }
    if (terms.contributors != terms.members.size()) {
      CAUSEWAY_TRY(ctx.rows().scale(row, terms.contributes ? terms.rescale : 0.0F));
    }
    return ctx.mean(recipe.codec, row, terms.part, holders, where);
  }

  // What the codec will leave out of this row: it decodes to the same values however the context cuts it.
  result<void> find_residual(auto& ctx, const Recipe& recipe) {
    const compress::as_message<decltype(recipe.codec)> codec{recipe.codec};
    const auto about = message_context(ctx);
    std::vector<std::byte> room(codec.most_bytes(about, row.size()));
    const std::size_t used = codec.encode(about, row, room);
    const auto bytes = std::span{room}.first(used);
    if constexpr (decltype(codec)::traits.transform) {
      return compress::residual_of(codec, about, row, bytes, next_residual);
    } else {
      CAUSEWAY_TRY(ctx.rows().copy(next_residual, row));
      return codec.decode_add(about, bytes, next_residual, -1.0F, {});
    }
  }

  void open_group(auto& ctx) {
    group = &ctx.transport();
    if (terms.members.size() == ctx.peers()) return;
    view = std::make_unique<net::any_transport>(collective::group_view{ctx.transport(), terms.members});
    group = view.get();
  }

  collective::exchange_port port(auto& ctx) {
    options = ctx.exchange_options();
    return {*group, terms.id, options};
  }

  [[nodiscard]] collective::exchange_row exchange_row() {
    return {.values = row, .residual = next_residual, .weight = terms.contributes ? terms.weight : 0.0F, .counts = counts};
  }

  [[nodiscard]] compress::message_context message_context(auto& ctx) const {
    return {.pool = ctx.pool(),
            .matrices = matrices,
            .seed = terms.seed,
            .own_seed = mix(terms.seed, ctx.self() + 1),
            .round = number,
            .reference = terms.reference};
  }
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_ROUND_STATE_HPP
