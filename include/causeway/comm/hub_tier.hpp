// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_HUB_TIER_HPP
#define CAUSEWAY_COMM_HUB_TIER_HPP

// One level of hubs and all above it, as one peer sees them: its part as a client of the hub of its group; its server, if
// it is that hub; and then the next level, whose client the server is, just as the peer is the server's. The recursion ends
// where nobody is above.

#include <causeway/axis/fragments.hpp>
#include <causeway/axis/hubs.hpp>
#include <causeway/comm/hub_roles.hpp>
#include <causeway/comm/hub_rules.hpp>
#include <causeway/comm/parameter_server.hpp>
#include <causeway/comm/server_client.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

template <class... Outers>
class hub_tier;

/// Above the top.
template <>
class hub_tier<> {
 public:
  explicit hub_tier(const std::tuple<>&) {}
  static result<void> open(const hub_terms&, std::span<const axis::hub_level>, std::uint32_t, std::span<const float>,
                           std::size_t) {
    return {};
  }
  static void configure(std::span<const axis::hub_level>) {}
  static result<void> set_groups(const hub_terms&, std::span<const hub_group>, std::uint32_t, std::span<const float>,
                                 std::size_t) {
    return {};
  }
  static void hang_up() {}
  static void greet() {}
  static result<void> meet(const hub_terms&) { return {}; }
  static result<void> agree(const hub_terms&) { return {}; }
  static result<void> serve(const auto&, const auto&, const hub_terms&) { return {}; }
  static net::peer_index somebody(net::peer_index self) { return self; }
  void serialize(auto&) {}
};

template <class Outer, class... Upper>
class hub_tier<Outer, Upper...> {
 public:
  using outer_type = Outer;
  using top_type = std::tuple_element_t<sizeof...(Upper), std::tuple<Outer, Upper...>>;
  static constexpr bool has_upper = sizeof...(Upper) > 0;

  explicit hub_tier(const std::tuple<Outer, Upper...>& outers)
      : server_{std::get<0>(outers)},
        upper_{std::apply([](const Outer&, const Upper&... rest) { return std::tuple<Upper...>{rest...}; }, outers)} {}

  [[nodiscard]] server_client& client() noexcept { return client_; }
  [[nodiscard]] const server_client& client() const noexcept { return client_; }
  [[nodiscard]] bool is_hub() const noexcept { return is_hub_; }
  [[nodiscard]] const parameter_server<Outer>& server() const noexcept { return server_; }
  [[nodiscard]] parameter_server<Outer>& server() noexcept { return server_; }
  [[nodiscard]] hub_tier<Upper...>& upper() noexcept { return upper_; }

  /// `levels`: this one and those above. `values`: what is below, at the start of the run.
  result<void> open(const hub_terms& terms, std::span<const axis::hub_level> levels, std::uint32_t level,
                    std::span<const float> values, std::size_t most_bytes) {
    const net::peer_index self = terms.transport.self();
    options_ = levels.front();
    const auto has_me = [self](const auto& g) { return std::find(g.begin(), g.end(), self) != g.end(); };
    const auto group = std::find_if(options_.groups.begin(), options_.groups.end(), has_me);
    CAUSEWAY_EXPECT(group != options_.groups.end());
    CAUSEWAY_TRY(client_.open(terms, level, group->front(), values));
    is_hub_ = group->front() == self;
    if (!is_hub_) return {};
    CAUSEWAY_TRY(server_.open(terms, level, *group, values, most_bytes));
    own_ = server_.clients().index_of(self);
    return upper_.open(terms, levels.subspan(1), level + 1, server_.shared(), most_bytes);
  }

  // ---- among peers that come and go: comm/hub_record.hpp ----------------------------------------------------------------

  /// `levels`: this one and those above, of which each keeps from now on what a later hub is pushed again.
  void configure(std::span<const axis::hub_level> levels) {
    options_ = levels.front();
    keeps_pushes_ = true;
    upper_.configure(levels.subspan(1));
  }
  /// From now on the peers of `groups`, of this level and those above, talk to their hubs; `values`: what is pulled first.
  result<void> set_groups(const hub_terms& terms, std::span<const hub_group> groups, std::uint32_t level,
                          std::span<const float> values, std::size_t most_bytes) {
    const hub_group& own = groups.front();
    CAUSEWAY_TRY(client_.open(terms, level, own.hub, values));
    is_hub_ = own.hub == terms.transport.self();
    if (!is_hub_) return {};
    server_.set_clients(terms, level, own, most_bytes);
    own_ = server_.clients().index_of(own.hub);
    has_above_ = true;  // again
    return upper_.set_groups(terms, groups.subspan(1), level + 1, server_.shared(), most_bytes);
  }
  void hang_up() {
    client_.hang_up();
    server_.clients().hang_up();
    upper_.hang_up();
    has_above_ = false;
  }
  /// Which of this peer's pushes the hub has taken.
  result<std::vector<std::uint64_t>> hear_taken(const hub_terms& terms) {
    if (is_hub_) return server_.clients()[own_].taken;
    return client_.hear_taken(terms);
  }
  /// To the hub, which applies nothing yet.
  void deliver(const hub_terms& terms, std::vector<std::byte> bytes) {
    if (is_hub_) return server_.take_in(terms, own_, bytes);
    client_.send(std::move(bytes));
  }

  /// A record: what is below begins as `shared`, and nothing was pushed.
  void begin_from(std::span<const float> shared, std::size_t fragments) {
    client_.begin_from(shared);
    pushed_.clear();
    work_.assign(fragments, {});
  }
  /// Since then: inner steps, or pushes from below, for fragment f; and that it is about to be pushed, as `live`.
  void note_work(std::size_t f, hub_work work) {
    work_[f].samples += work.samples;
    work_[f].steps += work.steps;
  }
  void note_push(const hub_terms& terms, std::size_t f, std::span<const float> live) {
    client_.legs()[f].at_send.assign(live.begin(), live.end());
    pushed_.resize(client_.anchor().size());
    add_pushed(1.0F, terms.cuts[f], client_.anchor(), live, pushed_);
  }
  /// Goes on from the pushes that the hub has taken.
  void resume_from(std::span<const std::uint64_t> taken, const hub_terms& terms) {
    client_.resume_from(taken, pushed_, terms);
  }
  /// Nothing that was pushed counts: all of it is to be pushed again, to another hub. `live`, what is below, becomes as far
  /// from `shared`, which is pulled; where a server is below, that stays as it is.
  void take_back(std::span<const float> shared, std::span<float> live, const hub_terms& terms) {
    client_.take_back(pushed_, shared, live, work_, terms);
    pushed_.clear();
  }
  void take_back(const hub_terms& terms) {
    client_.take_back(pushed_, work_, terms);
    pushed_.clear();
  }
  /// What was pushed counts, whoever has it.
  void forget_pushes() { pushed_.clear(); }

  /// To the hub above: what the server has not pushed yet.
  void push_rest_up(const auto& rules, const auto& residual, const hub_terms& terms) requires(has_upper) {
    count_applied();
    for (std::size_t f = 0; f < terms.cuts.size(); ++f) {
      hub_leg& leg = upper_.client().legs()[f];
      if (leg.since == 0) continue;
      gather_up(terms, f);
      upper_.deliver(terms, upper_.client().compose(rules, residual, 1.0F, terms, f, row_, false));
      leg.pending = true;  // until the record has it
    }
  }
  /// `given`, what the hub above shares, is the answer to all that was pushed.
  void take_answer(std::span<const float> given) requires(has_upper) {
    std::span<float> own = server_.shared();
    for (std::size_t i = 0; i < own.size(); ++i) own[i] += upper_.share() * (given[i] - own[i]);
    upper_.client().begin_from(own);
  }

  void greet() {
    client_.greet();
    if (is_hub_) upper_.greet();
  }
  result<void> meet(const hub_terms& terms) {
    if (!is_hub_) return {};
    CAUSEWAY_TRY(server_.meet(terms));
    return upper_.meet(terms);
  }
  result<void> agree(const hub_terms& terms) {
    CAUSEWAY_TRY(client_.agree(terms));
    return is_hub_ ? upper_.agree(terms) : result<void>{};
  }

  /// Takes in what has arrived at this level and above, and sends on what is due. Never waits.
  result<void> serve(const auto& rules, const auto& residual, const hub_terms& terms) {
    CAUSEWAY_TRY(client_.poll(terms));
    if (!is_hub_) return {};
    server_.serve(rules, terms);
    CAUSEWAY_TRY(hear_own(terms));
    if constexpr (has_upper) return serve_above(rules, residual, terms);
    return {};
  }

  /// Says how far `live`, fragment f of what is below, has come.
  result<void> push(const auto& rules, const auto& residual, float rate, const hub_terms& terms, std::size_t f,
                    std::span<const float> live, bool wants_answer) {
    return say(rules, terms, client_.compose(rules, residual, rate, terms, f, live, wants_answer));
  }

  /// Tells the hub that nothing more comes before fragment f is answered.
  result<void> say_waiting(const auto& rules, const hub_terms& terms, std::size_t f) {
    const push_header h{.word = hub_word::waits, .fragment = static_cast<std::uint32_t>(f)};
    return say(rules, terms, with_header(h, 0));
  }

  /// After this peer's last push: blocks until all are done, and gives the shared parameters of the highest level, which
  /// all clients get. `nap` lets a moment pass.
  result<std::span<const float>> conclude(const auto& rules, const auto& residual, const hub_terms& terms,
                                          const auto& nap) {
    CAUSEWAY_TRY(say(rules, terms, client_.farewell()));
    if (!is_hub_) {
      while (client_.last().empty()) CAUSEWAY_TRY(client_.wait(terms));
      return client_.last();
    }
    for (;;) {
      CAUSEWAY_TRY(serve(rules, residual, terms));
      if (server_.is_over()) break;
      CAUSEWAY_TRY(nap());
    }
    if constexpr (has_upper) {
      for (std::size_t f = 0; f < terms.cuts.size(); ++f) {
        const hub_leg& leg = upper_.client().legs()[f];
        if (leg.since > 0 && !leg.pending) CAUSEWAY_TRY(push_up(rules, residual, terms, f, false));
      }
      CAUSEWAY_ASSIGN(const auto all, upper_.conclude(rules, residual, terms, nap));
      std::copy(all.begin(), all.end(), server_.shared().begin());
    }
    server_.dismiss(terms);
    return std::span<const float>{server_.shared()};
  }

  /// Another peer that this one still has a line to; `self`: there is none.
  [[nodiscard]] net::peer_index somebody(net::peer_index self) const {
    if (!is_hub_) return client_.hub();
    const net::peer_index client = server_.clients().somebody(self);
    return client != self || !has_above_ ? client : upper_.somebody(self);
  }

  void serialize(auto& ar) {
    ar(is_hub_, client_);
    if (is_hub_) ar(server_, upper_);
  }
  /// What is kept to be pushed again.
  void serialize_pushes(auto& ar) {
    work_.resize(client_.legs().size());
    for (hub_work& w : work_) ar(w.samples, w.steps);
    ar(pushed_);
  }

 private:
  result<void> say(const auto& rules, const hub_terms& terms, std::vector<std::byte> bytes) {
    if (!is_hub_) {
      client_.send(std::move(bytes));
      return {};
    }
    server_.hear(rules, terms, own_, bytes);
    return hear_own(terms);
  }

  result<void> hear_own(const hub_terms& terms) {
    auto& answers = server_.clients().own_answers();
    while (!answers.empty()) {
      const auto bytes = std::move(answers.front());
      answers.pop_front();
      CAUSEWAY_TRY(client_.hear(terms, bytes));
    }
    return {};
  }

  /// The same above. Where peers come and go a region goes on without those, until the next record.
  result<void> serve_above(const auto& rules, const auto& residual, const hub_terms& terms) {
    count_applied();
    if (!has_above_) return {};
    auto talked = talk_up(rules, residual, terms);
    if (talked) talked = upper_.serve(rules, residual, terms);
    if (talked || !keeps_pushes_) return talked;
    terms.log(severity::info, "the hub of all regions is out of reach (" + std::string{to_string(talked.error().code)} +
                                  "): this region trains on, and pushes again at the next record");
    upper_.hang_up();
    has_above_ = false;
    return {};
  }

  /// Progress of what is below, in pushes.
  void count_applied() {
    auto& legs = upper_.client().legs();
    for (std::size_t f = 0; f < legs.size(); ++f) {
      const auto [pushes, samples] = server_.take_applied(f);
      legs[f].since += pushes;
      legs[f].samples += samples;
      legs[f].steps += pushes;
      if (keeps_pushes_) upper_.note_work(f, {samples, pushes});
    }
  }

  /// The server as a client of the level above. Pushes that come between its own push and the answer move this region
  /// alone: the next one says how far the region has come since it mixed the answer in.
  result<void> talk_up(const auto& rules, const auto& residual, const hub_terms& terms) {
    auto& legs = upper_.client().legs();
    for (std::size_t f = 0; f < legs.size(); ++f) {
      if (!legs[f].pending && legs[f].since >= upper_.pushes()) {
        CAUSEWAY_TRY(push_up(rules, residual, terms, f, true));
      }
      if (legs[f].answered) mix_in(terms, f);
    }
    return {};
  }

  result<void> push_up(const auto& rules, const auto& residual, const hub_terms& terms, std::size_t f, bool wants_answer) {
    gather_up(terms, f);
    return upper_.push(rules, residual, 1.0F, terms, f, row_, wants_answer);
  }

  /// row ← fragment f of what the server is about to push.
  void gather_up(const hub_terms& terms, std::size_t f) {
    row_.resize(terms.cuts[f].size);
    axis::gather(terms.cuts[f], server_.shared(), row_);
    if (keeps_pushes_) upper_.note_push(terms, f, row_);
  }

  /// own ← (1−s)·own + s·upper; progress counts from there.
  void mix_in(const hub_terms& terms, std::size_t f) {
    hub_leg& leg = upper_.client().legs()[f];
    const float share = leg.fresh ? 1.0F : upper_.share();
    auto given = leg.answer.begin();
    for (const index_range r : terms.cuts[f].ranges) {
      for (auto i = static_cast<std::size_t>(r.begin); i < static_cast<std::size_t>(r.end); ++i, ++given) {
        float& own = server_.shared()[i];
        own += share * (*given - own);
        upper_.client().anchor()[i] = own;
      }
    }
    upper_.client().applied(leg);
    leg.since = 0;
  }

 public:
  [[nodiscard]] std::uint32_t pushes() const noexcept { return options_.pushes; }
  [[nodiscard]] float share() const noexcept { return options_.upper_share; }

 private:
  axis::hub_level options_;
  bool is_hub_ = false;
  std::uint32_t own_ = 0;  ///< this peer among the server's clients
  server_client client_;
  parameter_server<Outer> server_;
  hub_tier<Upper...> upper_;
  std::vector<float> row_;

  // Among peers that come and go.
  bool keeps_pushes_ = false;
  bool has_above_ = true;       ///< the level above can be reached
  std::vector<float> pushed_;   ///< how far what is below has come since the last record, as far as that was pushed
  std::vector<hub_work> work_;  ///< since then, of each fragment
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_HUB_TIER_HPP
