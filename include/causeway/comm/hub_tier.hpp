// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_HUB_TIER_HPP
#define CAUSEWAY_COMM_HUB_TIER_HPP

// One level of hubs and all above it, as one peer sees them: its part as a client of the hub of its group; its server, if
// it is that hub; and then the next level, whose client the server is, just as the peer is the server's. The recursion ends
// where nobody is above.

#include <causeway/axis/fragments.hpp>
#include <causeway/axis/hubs.hpp>
#include <causeway/comm/hub_rules.hpp>
#include <causeway/comm/parameter_server.hpp>
#include <causeway/comm/server_client.hpp>
#include <causeway/core/result.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
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
  static constexpr bool has_upper = sizeof...(Upper) > 0;

  explicit hub_tier(const std::tuple<Outer, Upper...>& outers)
      : server_{std::get<0>(outers)},
        upper_{std::apply([](const Outer&, const Upper&... rest) { return std::tuple<Upper...>{rest...}; }, outers)} {}

  [[nodiscard]] server_client& client() noexcept { return client_; }
  [[nodiscard]] const server_client& client() const noexcept { return client_; }
  [[nodiscard]] bool is_hub() const noexcept { return is_hub_; }
  [[nodiscard]] const parameter_server<Outer>& server() const noexcept { return server_; }
  [[nodiscard]] parameter_server<Outer>& server() noexcept { return server_; }

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
    own_ = server_.index_of(self);
    return upper_.open(terms, levels.subspan(1), level + 1, server_.shared(), most_bytes);
  }

  // ---- among peers that come and go, where this is the only level: comm/hub_record.hpp --------------------------------

  /// From now on the peers of the transport, called so, talk to `hub` over it; `values`: what is pulled at first.
  result<void> set_peers(const hub_terms& terms, net::peer_index hub, std::span<const std::uint64_t> names,
                         std::span<const float> values, std::size_t most_bytes) {
    CAUSEWAY_TRY(client_.open(terms, 0, hub, values));
    is_hub_ = hub == terms.transport.self();
    if (!is_hub_) return {};
    own_ = terms.transport.self();
    server_.set_clients(terms, names, most_bytes);
    return {};
  }
  void hang_up() {
    client_.hang_up();
    server_.hang_up();
  }
  /// Which of this peer's pushes the hub has taken.
  result<std::vector<std::uint64_t>> hear_taken(const hub_terms& terms) {
    if (is_hub_) return server_.taken_of(own_);
    return client_.hear_taken(terms);
  }
  /// To the hub, which applies nothing yet.
  void deliver(const hub_terms& terms, std::vector<std::byte> bytes) {
    if (is_hub_) return server_.take_in(terms, own_, bytes);
    client_.send(std::move(bytes));
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
    if constexpr (has_upper) {
      CAUSEWAY_TRY(talk_up(rules, residual, terms));
      return upper_.serve(rules, residual, terms);
    }
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
    const net::peer_index client = server_.somebody(self);
    return client != self ? client : upper_.somebody(self);
  }

  void serialize(auto& ar) {
    ar(is_hub_, client_);
    if (is_hub_) ar(server_, upper_);
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
    while (!server_.own_answers().empty()) {
      const auto bytes = std::move(server_.own_answers().front());
      server_.own_answers().pop_front();
      CAUSEWAY_TRY(client_.hear(terms, bytes));
    }
    return {};
  }

  /// The server as a client of the level above. Pushes that come between its own push and the answer move this region
  /// alone: the next one says how far the region has come since it mixed the answer in.
  result<void> talk_up(const auto& rules, const auto& residual, const hub_terms& terms) {
    auto& legs = upper_.client().legs();
    for (std::size_t f = 0; f < legs.size(); ++f) {
      const auto [pushes, samples] = server_.take_applied(f);
      legs[f].since += pushes;
      legs[f].samples += samples;
      legs[f].steps += pushes;
      if (!legs[f].pending && legs[f].since >= upper_.pushes()) {
        CAUSEWAY_TRY(push_up(rules, residual, terms, f, true));
      }
      if (legs[f].answered) mix_in(terms, f);
    }
    return {};
  }

  result<void> push_up(const auto& rules, const auto& residual, const hub_terms& terms, std::size_t f, bool wants_answer) {
    row_.resize(terms.cuts[f].size);
    axis::gather(terms.cuts[f], server_.shared(), row_);
    return upper_.push(rules, residual, 1.0F, terms, f, row_, wants_answer);
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
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_HUB_TIER_HPP
