// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_PARAMETER_SERVER_HPP
#define CAUSEWAY_COMM_PARAMETER_SERVER_HPP

// The hub's side of comm::async_parameter_server: shared parameters, its clients, and their pushes that wait to be applied.
// The peer that it runs on may be a client as well; its messages do not travel, but are the same.
//
// Clients that get lost, and clients that send what makes no sense, are left out from then on: nothing that one client does
// or does not do ends the hub's run. A push that is not finite counts for nothing, and its answer says so: the client
// starts again from the shared parameters. One that pushes nothing else is left out, too.

#include <causeway/axis/arrivals.hpp>
#include <causeway/axis/fragments.hpp>
#include <causeway/collective/refusal.hpp>
#include <causeway/comm/hub_clients.hpp>
#include <causeway/comm/hub_copy.hpp>
#include <causeway/comm/hub_pushes.hpp>
#include <causeway/comm/hub_rules.hpp>
#include <causeway/comm/push_aggregator.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/membership/state_image.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

template <class Outer>
class parameter_server {
 public:
  explicit parameter_server(Outer outer) : prototype_{std::move(outer)} {}

  /// `group`: the clients, this peer among them. Keeps what was restored from a checkpoint.
  result<void> open(const hub_terms& terms, std::uint32_t level, std::span<const net::peer_index> group,
                    std::span<const float> parameters, std::size_t most_bytes) {
    if (shared_.empty()) found(terms.cuts, group.size(), parameters);
    if (shared_.size() != parameters.size() || clients_.size() != group.size() ||
        pushes_.fragments() != terms.cuts.size()) {
      return fail(
          errc::wrong_model, "async_parameter_server",
          "the checkpoint was written with other peers, fragments or another model; start with the settings it had");
    }
    level_ = level;
    clients_.open(terms, level, group, most_bytes);
    pushes_.restarted(terms.now());
    return {};
  }

  // ---- among peers that come and go -----------------------------------------------------------------------------------

  /// Begins with the state that `copy`, which is as `state` gives it, names; with no clients.
  void found_on(std::span<const axis::fragment> cuts, std::span<const std::span<std::byte>> copy) {
    dissolve();
    found(cuts, 0, std::vector<float>(copy.front().size() / sizeof(float)));
    copy_parts(copy, state());
  }
  /// Holds nothing any more.
  void dissolve() {
    shared_.clear();
    outers_.clear();
    clients_.clear();
    pushes_.cut(0);
  }
  /// The memory that an heir needs, in parts.
  [[nodiscard]] std::vector<std::span<std::byte>> state() {
    membership::image_collector all;
    all(shared_, outers_);
    return all.parts();
  }

  /// From now on the clients are those of `group`. Who was one before is known still, by name: what it pushed is not taken
  /// twice. Nothing may wait (`close`).
  void set_clients(const hub_terms& terms, std::uint32_t level, const hub_group& group, std::size_t most_bytes) {
    level_ = level;
    clients_.regroup(terms, level, group, pushes_.fragments(), most_bytes);
  }
  [[nodiscard]] hub_clients& clients() noexcept { return clients_; }
  [[nodiscard]] const hub_clients& clients() const noexcept { return clients_; }

  /// Takes all that the clients say until each is done.
  result<void> hear_out(const hub_terms& terms) {
    for (std::uint32_t c = 0; c < clients_.size(); ++c) {
      while (clients_.listens_to(c) && !clients_[c].done) {
        CAUSEWAY_ASSIGN(const auto bytes, clients_[c].line->take(terms.deadline));
        take_in(terms, c, bytes);
      }
    }
    return {};
  }
  /// Takes what a client says; applies nothing yet.
  void take_in(const hub_terms& terms, std::uint32_t c, std::span<const std::byte> bytes) {
    const auto outcome = understand(terms, c, bytes);
    if (!outcome) clients_.refuse(terms, c, outcome.error());
  }
  /// Applies all that waits, and answers nothing.
  void close(const auto& rules, const hub_terms& terms) {
    for (std::size_t f = 0; f < pushes_.fragments(); ++f) {
      if (!pushes_.waiting[f].empty()) apply(rules, terms, f);
      pushes_.owed[f].clear();
    }
  }

  /// Waits for every client's hello, and answers it.
  result<void> meet(const hub_terms& terms) {
    for (std::uint32_t c = 0; c < clients_.size(); ++c) {
      if (!clients_[c].line) continue;
      CAUSEWAY_ASSIGN(const auto hello, clients_[c].line->take(terms.deadline));
      CAUSEWAY_TRY(meet(terms, c, hello));
    }
    return {};
  }

  /// Takes what a client says, and applies what is due: this peer's own words come this way.
  void hear(const auto& rules, const hub_terms& terms, std::uint32_t c, std::span<const std::byte> bytes) {
    take_in(terms, c, bytes);
    apply_due(rules, terms);
  }

  /// Takes in all that has arrived, and applies what is due: pushes that are found together are merged together, where
  /// pushes are merged. Never waits.
  void serve(const auto& rules, const hub_terms& terms) {
    for (std::uint32_t c = 0; c < clients_.size(); ++c) {
      while (clients_.listens_to(c) && clients_[c].line->arrived()) {
        const auto bytes = clients_[c].line->take(terms.deadline);
        if (bytes) {
          take_in(terms, c, *bytes);
        } else {
          clients_.lose(terms, c, bytes.error());
        }
      }
      if (clients_.listens_to(c)) {
        if (const auto sent = clients_[c].line->sweep(); !sent) clients_.lose(terms, c, sent.error());
      }
    }
    apply_due(rules, terms);
  }

  /// Whether no client will push any more, and all pushes are applied.
  [[nodiscard]] bool is_over() const { return clients_.are_through() && pushes_.are_applied(); }

  /// Sends the shared parameters to all that are still here, for good.
  void dismiss(const hub_terms& terms) { clients_.dismiss(terms, shared_); }

  [[nodiscard]] std::span<float> shared() noexcept { return shared_; }
  [[nodiscard]] std::span<const float> shared() const noexcept { return shared_; }
  /// Pushes applied to fragment f, and the samples behind them, since the last call.
  [[nodiscard]] std::pair<std::uint32_t, std::uint64_t> take_applied(std::size_t f) {
    return {std::exchange(applied_[f], 0U), std::exchange(samples_[f], std::uint64_t{0})};
  }

  void serialize(auto& ar) {
    std::uint64_t fragments = pushes_.fragments();
    std::uint64_t clients = clients_.size();
    ar(shared_, fragments, clients);
    while (outers_.size() < fragments) outers_.push_back(prototype_);
    clients_.grow(clients);
    pushes_.cut(fragments);
    applied_.resize(fragments);
    samples_.resize(fragments);
    for (Outer& o : outers_) ar(o);
    clients_.serialize(ar);
    pushes_.serialize(ar);
    ar(applied_, samples_);
  }

 private:
  void found(std::span<const axis::fragment> cuts, std::size_t clients, std::span<const float> parameters) {
    shared_.assign(parameters.begin(), parameters.end());
    for (const axis::fragment& cut : cuts) {
      outers_.push_back(prototype_);
      outers_.back().reset(static_cast<std::int64_t>(cut.size));
    }
    clients_.found(clients, cuts.size());
    pushes_.cut(cuts.size());
    applied_.assign(cuts.size(), 0);
    samples_.assign(cuts.size(), 0);
  }

  // ---- clients -------------------------------------------------------------------------------------------------------

  /// Sends the answers that nothing holds back: their clients are not too far ahead.
  void answer_all(const auto& rules, const hub_terms& terms, std::size_t f) {
    const std::uint64_t least = clients_.slowest(f);
    std::erase_if(pushes_.owed[f], [&](const owed_answer& owed) {
      const std::uint64_t made = clients_[owed.client].taken[f];
      if (made > least && made - least >= rules.arrivals.most_ahead) return false;
      answer(rules, terms, owed, f);
      return true;
    });
  }

  void answer(const auto& rules, const hub_terms& terms, const owed_answer& w, std::size_t f) {
    if (!clients_[w.client].here) return;
    clients_[w.client].waits = false;
    const answer_header h{.fragment = static_cast<std::uint32_t>(f),
                          .number = w.number,
                          .held_seconds = seconds(terms.now() - w.since),
                          .steps = rules.steps_for(clients_[w.client].speed, clients_.speeds()),
                          .code = w.unsound ? static_cast<std::uint32_t>(errc::non_finite) : 0};
    clients_.reply(w.client, fragment_answer(terms, h));
  }

  std::vector<std::byte> fragment_answer(const hub_terms& terms, const answer_header& h) {
    const axis::fragment& cut = terms.cuts[h.fragment];
    auto bytes = with_header(h, cut.size * sizeof(float));
    std::byte* to = bytes.data() + sizeof h;
    for (const index_range r : cut.ranges) {
      const std::size_t size = static_cast<std::size_t>(r.size()) * sizeof(float);
      std::memcpy(to, shared_.data() + r.begin, size);
      to += size;
    }
    return bytes;
  }

  // ---- what they say -------------------------------------------------------------------------------------------------

  result<void> meet(const hub_terms& terms, std::uint32_t c, std::span<const std::byte> bytes) {
    CAUSEWAY_ASSIGN(const push_header h, take_header<push_header>(bytes, clients_.peer_of(c)));
    std::vector<hello_entry> said(terms.cuts.size());
    const auto room = std::as_writable_bytes(std::span{said});
    if (h.word != hub_word::hello || h.fragment != said.size() || h.samples != shared_.size() ||
        bytes.size() != room.size()) {
      return fail(errc::wrong_model, "peer " + std::to_string(clients_.peer_of(c)),
                  "it trains another model, or cuts it in another way; all peers need the same options");
    }
    std::memcpy(room.data(), bytes.data(), bytes.size());
    clients_.tell_taken(c);
    for (std::uint32_t f = 0; f < said.size(); ++f) catch_up(terms, c, f, said[f]);
    return {};
  }

  /// After a restart one side may know of pushes that the other has not made, or not heard of. See server_client::agree.
  void catch_up(const hub_terms& terms, std::uint32_t c, std::uint32_t f, const hello_entry& said) {
    std::uint64_t& taken = clients_[c].taken[f];
    const bool is_ahead = taken > said.number;
    const bool has_it = said.pending != 0 && taken >= said.number;
    const bool will_be_answered = pushes_.catch_up(c, f, said);
    if ((is_ahead || has_it) && !will_be_answered) {
      clients_.reply(c, fragment_answer(terms, {.fragment = f, .number = taken}));
    }
    taken = std::max(taken, said.number - (said.pending != 0 ? 1 : 0));
  }

  result<void> understand(const hub_terms& terms, std::uint32_t c, std::span<const std::byte> bytes) {
    CAUSEWAY_ASSIGN(const push_header h, take_header<push_header>(bytes, clients_.peer_of(c)));
    hub_client& client = clients_[c];
    if (h.word == hub_word::done && !client.done) {
      client.done = true;
      return {};
    }
    if (h.word == hub_word::waits && h.fragment < pushes_.fragments()) {
      client.waits = pushes_.concern(c, h.fragment);
      return {};
    }
    const bool sane = std::isfinite(h.speed) && h.speed >= 0 && std::isfinite(h.sync_seconds);
    if (h.word != hub_word::push || h.fragment >= pushes_.fragments() || h.number != client.taken[h.fragment] + 1 ||
        client.done || !sane) {
      return fail(errc::protocol, "peer " + std::to_string(clients_.peer_of(c)),
                  "it sent a push that makes no sense; do all peers run the same options and version?");
    }
    CAUSEWAY_TRY(pushes_.room_for(c, h.fragment, clients_.peer_of(c)));
    CAUSEWAY_ASSIGN(const hub_work work, credible(level_ == 0 ? terms.most : push_limits{}, h, clients_.peer_of(c)));
    client.taken[h.fragment] = h.number;
    client.samples[h.fragment] = work.samples;
    client.speed = h.speed;
    client.sync_seconds = h.sync_seconds;
    const auto* const from = reinterpret_cast<const std::uint8_t*>(bytes.data());
    pushes_.waiting[h.fragment].push_back({.client = c,
                                           .number = h.number,
                                           .samples = work.samples,
                                           .steps = work.steps,
                                           .wants_answer = h.wants_answer,
                                           .bytes = {from, from + bytes.size()},
                                           .since = terms.now()});
    return {};
  }

  // ---- pushes --------------------------------------------------------------------------------------------------------

  void apply_due(const auto& rules, const hub_terms& terms) {
    for (std::size_t f = 0; f < pushes_.fragments(); ++f) {
      if (!pushes_.waiting[f].empty() && is_due(rules, terms, f)) apply(rules, terms, f);
      answer_all(rules, terms, f);
    }
  }

  [[nodiscard]] bool is_due(const auto& rules, const hub_terms& terms, std::size_t f) const {
    const auto& batch = pushes_.waiting[f];
    const time_point first = batch.front().since;
    std::vector<double> arrived;
    for (const waiting_push& w : batch) arrived.push_back(seconds(w.since - first));
    const std::size_t expected = pushes_.expected_of(clients_, f);
    if (batch.size() >= expected) return true;
    const axis::waiting_pushes g{
        .arrived = arrived, .expected = expected, .slack = clients_.slack_of(rules.merge_steps, batch)};
    return seconds(terms.now() - first) >= rules.arrivals.closes_after(g);
  }

  void apply(const auto& rules, const hub_terms& terms, std::size_t f) {
    std::vector<waiting_push> batch = std::exchange(pushes_.waiting[f], {});
    if constexpr (std::remove_cvref_t<decltype(rules)>::arrivals_type::merges) {
      std::stable_sort(batch.begin(), batch.end(), [](const auto& a, const auto& b) { return a.client < b.client; });
      move_shared(rules, terms, f, batch);
      for (const waiting_push& w : batch) pushes_.owe(w, f);
    } else {
      for (waiting_push& w : batch) {
        move_shared(rules, terms, f, std::span{&w, 1});
        pushes_.owe(w, f);
        answer_all(rules, terms, f);
      }
    }
  }

  /// The outer step with what the pushes say together, without those that cannot be used.
  void move_shared(const auto& rules, const hub_terms& terms, std::size_t f, std::span<waiting_push> batch) {
    const auto bad = [&](const waiting_push& w, errc why) {
      batch[static_cast<std::size_t>(&w - batch.data())].unsound = true;
      object(terms, w, f, collective::to_error({clients_.peer_of(w.client), why}, UINT32_MAX));
    };
    const merged_pushes merged = aggregator_.merge(rules, terms, level_, f, batch, bad);
    for (const waiting_push& w : batch) {
      if (!w.unsound) clients_[w.client].unsound = 0;
    }
    if (merged.pushes == 0) return;
    applied_[f] += merged.pushes;
    samples_[f] += merged.samples;
    constexpr bool merges = std::remove_cvref_t<decltype(rules)>::arrivals_type::merges;
    step_outer(terms, terms.cuts[f], outers_[f], merges ? clients_.share_of(f, batch) : 1.0F);
  }

  /// Values that are not finite cost a client what it computed; anything else, its place. So does a server below that
  /// shares such values: all its clients have them.
  void object(const hub_terms& terms, const waiting_push& w, std::size_t f, const error& why) {
    const bool may_start_over = why.code == errc::non_finite && level_ == 0 && clients_[w.client].unsound < most_unsound;
    if (!may_start_over) return clients_.refuse(terms, w.client, why);
    ++clients_[w.client].unsound;
    terms.log(severity::warning, "async_parameter_server: push " + std::to_string(w.number) + " of fragment " +
                                     std::to_string(f) + " counts for nothing: " + why.text() +
                                     ". Its peer starts again from the shared parameters");
  }

  void step_outer(const hub_terms& terms, const axis::fragment& cut, Outer& outer, float share) {
    if (cut.is_whole(shared_.size())) return outer.step(terms.pool, shared_, aggregator_.row(), {}, share);
    opened_.resize(cut.size);
    axis::gather(cut, shared_, opened_);
    outer.step(terms.pool, opened_, aggregator_.row(), {}, share);
    axis::scatter(cut, opened_, shared_);
  }

  static constexpr std::uint32_t most_unsound = 8;  // pushes in a row that are not finite

  Outer prototype_;
  std::uint32_t level_ = 0;
  std::vector<float> shared_;
  std::vector<Outer> outers_;  ///< one for each fragment
  hub_clients clients_;
  hub_pushes pushes_;
  std::vector<std::uint32_t> applied_;
  std::vector<std::uint64_t> samples_;

  push_aggregator aggregator_;
  std::vector<float> opened_;  // working memory
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_PARAMETER_SERVER_HPP
