// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_PARAMETER_SERVER_HPP
#define CAUSEWAY_COMM_PARAMETER_SERVER_HPP

// The hub's side of comm::async_parameter_server: shared parameters, the pushes that wait to be applied, and a line to each
// client. The peer that it runs on may be a client as well; its messages do not travel, but are the same.
//
// Clients that get lost, and clients that send what makes no sense, are left out from then on: nothing that one client does
// or does not do ends the hub's run. A push that is not finite counts for nothing, and its answer says so: the client
// starts again from the shared parameters. One that pushes nothing else is left out, too.

#include <causeway/axis/arrivals.hpp>
#include <causeway/axis/fragments.hpp>
#include <causeway/collective/refusal.hpp>
#include <causeway/comm/hub_copy.hpp>
#include <causeway/comm/hub_line.hpp>
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
#include <deque>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// What a hub knows of one client.
struct hub_client {
  std::uint64_t name = 0;              ///< of who is a client whatever place it has
  std::vector<std::uint64_t> taken;    ///< of each fragment: the number of the last push that came
  std::vector<std::uint64_t> samples;  ///< of each fragment: those behind the last push that came; 0: there was none
  double speed = 0;
  double sync_seconds = 0;
  bool here = true;  ///< neither lost nor refused
  bool done = false;
  bool waits = false;                ///< for an answer: it will not push anything before
  std::uint32_t unsound = 0;         ///< pushes in a row that were not finite
  std::unique_ptr<hub_line> line{};  ///< none for this peer itself

  void serialize(auto& ar) { ar(taken, samples, speed, sync_seconds); }
};

/// A push that was applied and not answered yet.
struct owed_answer {
  std::uint32_t client = 0;
  std::uint64_t number = 0;
  time_point since{};  ///< as waiting_push has it
  // Not part of a checkpoint: a client that is not told pushes what is not finite once more, and is told then.
  bool unsound = false;

  void serialize(auto& ar) { ar(client, number); }
};

template <class Outer>
class parameter_server {
 public:
  explicit parameter_server(Outer outer) : prototype_{std::move(outer)} {}

  /// `group`: the clients, this peer among them. Keeps what was restored from a checkpoint.
  result<void> open(const hub_terms& terms, std::uint32_t level, std::span<const net::peer_index> group,
                    std::span<const float> parameters, std::size_t most_bytes) {
    if (shared_.empty()) found(terms.cuts, group.size(), parameters);
    if (shared_.size() != parameters.size() || clients_.size() != group.size() || batches_.size() != terms.cuts.size()) {
      return fail(
          errc::wrong_model, "async_parameter_server",
          "the checkpoint was written with other peers, fragments or another model; start with the settings it had");
    }
    level_ = level;
    peers_.assign(group.begin(), group.end());
    connect(terms, most_bytes);
    for (std::size_t f = 0; f < batches_.size(); ++f) {
      for (waiting_push& w : batches_[f]) w.since = terms.now();
      for (owed_answer& owed : unanswered_[f]) owed.since = terms.now();
    }
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
    batches_.clear();
    unanswered_.clear();
  }
  /// The memory that an heir needs, in parts.
  [[nodiscard]] std::vector<std::span<std::byte>> state() {
    membership::image_collector all;
    all(shared_, outers_);
    return all.parts();
  }

  /// From now on the clients are these, by name, in the order of the transport. Who was one before is known still: what it
  /// pushed is not taken twice. Nothing may wait (`close`).
  void set_clients(const hub_terms& terms, std::span<const std::uint64_t> names, std::size_t most_bytes) {
    std::vector<hub_client> before = std::exchange(clients_, {});
    peers_.clear();
    for (const std::uint64_t name : names) {
      peers_.push_back(static_cast<net::peer_index>(peers_.size()));
      const auto known = std::find_if(before.begin(), before.end(), [&](const auto& b) { return b.name == name; });
      clients_.push_back(known == before.end() ? newcomer(batches_.size()) : std::move(*known));
      clients_.back().name = name;
      clients_.back().here = true;
      clients_.back().done = clients_.back().waits = false;
    }
    own_answers_.clear();
    connect(terms, most_bytes);
  }
  /// Ends all lines; the clients stay known.
  void hang_up() {
    for (hub_client& c : clients_) c.line.reset();
  }

  /// Tells each client which of its pushes were taken.
  void tell_taken() {
    for (hub_client& c : clients_) {
      if (c.line) c.line->send(taken_message(c));
    }
  }
  [[nodiscard]] const std::vector<std::uint64_t>& taken_of(std::uint32_t c) const { return clients_[c].taken; }

  /// Takes all that the clients say until each is done.
  result<void> hear_out(const hub_terms& terms) {
    for (std::uint32_t c = 0; c < clients_.size(); ++c) {
      while (listens_to(c) && !clients_[c].done) {
        CAUSEWAY_ASSIGN(const auto bytes, clients_[c].line->take(terms.deadline));
        take_in(terms, c, bytes);
      }
    }
    return {};
  }
  /// Takes what a client says; applies nothing yet.
  void take_in(const hub_terms& terms, std::uint32_t c, std::span<const std::byte> bytes) {
    const auto outcome = understand(terms, c, bytes);
    if (!outcome) refuse(terms, c, outcome.error());
  }
  /// Applies all that waits, and answers nothing.
  void close(const auto& rules, const hub_terms& terms) {
    for (std::size_t f = 0; f < batches_.size(); ++f) {
      if (!batches_[f].empty()) apply(rules, terms, f);
      unanswered_[f].clear();
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
      while (listens_to(c) && clients_[c].line->arrived()) {
        const auto bytes = clients_[c].line->take(terms.deadline);
        if (bytes) {
          take_in(terms, c, *bytes);
        } else {
          lose(terms, c, bytes.error());
        }
      }
      if (clients_[c].line && clients_[c].here) {
        if (const auto sent = clients_[c].line->sweep(); !sent) lose(terms, c, sent.error());
      }
    }
    apply_due(rules, terms);
  }

  /// Whether no client will push any more, and all pushes are applied.
  [[nodiscard]] bool is_over() const {
    const auto over = [](const hub_client& c) { return c.done || !c.here; };
    const auto applied = [](const auto& batch) { return batch.empty(); };
    return std::all_of(clients_.begin(), clients_.end(), over) && std::all_of(batches_.begin(), batches_.end(), applied);
  }

  /// Sends the shared parameters to all that are still here, for good.
  void dismiss(const hub_terms& terms) {
    for (std::uint32_t c = 0; c < clients_.size(); ++c) {
      if (!clients_[c].line || !clients_[c].here) continue;
      auto bytes = with_header(answer_header{.word = hub_word::last}, shared_.size() * sizeof(float));
      std::memcpy(bytes.data() + sizeof(answer_header), shared_.data(), shared_.size() * sizeof(float));
      clients_[c].line->send(std::move(bytes));
    }
    for (std::uint32_t c = 0; c < clients_.size(); ++c) {
      if (!clients_[c].line || !clients_[c].here) continue;
      if (const auto sent = clients_[c].line->flush(terms.deadline); !sent) lose(terms, c, sent.error());
    }
  }

  /// A client that is still there, to have something to wait for; none: the peer's own index.
  [[nodiscard]] net::peer_index somebody(net::peer_index self) const {
    for (std::size_t c = 0; c < clients_.size(); ++c) {
      if (clients_[c].line && clients_[c].here) return peers_[c];
    }
    return self;
  }

  [[nodiscard]] std::span<float> shared() noexcept { return shared_; }
  [[nodiscard]] std::span<const float> shared() const noexcept { return shared_; }
  /// Answers to this peer itself.
  [[nodiscard]] std::deque<std::vector<std::byte>>& own_answers() noexcept { return own_answers_; }
  /// Pushes applied to fragment f, and the samples behind them, since the last call.
  [[nodiscard]] std::pair<std::uint32_t, std::uint64_t> take_applied(std::size_t f) {
    return {std::exchange(applied_[f], 0U), std::exchange(samples_[f], std::uint64_t{0})};
  }
  [[nodiscard]] std::uint32_t index_of(net::peer_index peer) const {
    return static_cast<std::uint32_t>(std::find(peers_.begin(), peers_.end(), peer) - peers_.begin());
  }

  void serialize(auto& ar) {
    std::uint64_t fragments = batches_.size();
    std::uint64_t clients = clients_.size();
    ar(shared_, fragments, clients);
    while (outers_.size() < fragments) outers_.push_back(prototype_);
    while (clients_.size() < clients) clients_.emplace_back();
    batches_.resize(fragments);
    unanswered_.resize(fragments);
    applied_.resize(fragments);
    samples_.resize(fragments);
    for (Outer& o : outers_) ar(o);
    for (hub_client& c : clients_) ar(c);
    for (auto& batch : batches_) serialize_all(ar, batch);
    for (auto& owed : unanswered_) serialize_all(ar, owed);
    ar(applied_, samples_);
  }

 private:
  template <class T>
  static void serialize_all(auto& ar, std::vector<T>& all) {
    std::uint64_t count = all.size();
    ar(count);
    all.resize(count);
    for (T& one : all) ar(one);
  }

  void found(std::span<const axis::fragment> cuts, std::size_t clients, std::span<const float> parameters) {
    shared_.assign(parameters.begin(), parameters.end());
    for (const axis::fragment& cut : cuts) {
      outers_.push_back(prototype_);
      outers_.back().reset(static_cast<std::int64_t>(cut.size));
    }
    for (std::size_t c = 0; c < clients; ++c) clients_.push_back(newcomer(cuts.size()));
    batches_.resize(cuts.size());
    unanswered_.resize(cuts.size());
    applied_.assign(cuts.size(), 0);
    samples_.assign(cuts.size(), 0);
  }

  static hub_client newcomer(std::size_t fragments) {
    const std::vector<std::uint64_t> none(fragments);
    return {.taken = none, .samples = none};
  }

  /// A line to every client but this peer itself.
  void connect(const hub_terms& terms, std::size_t most_bytes) {
    const std::size_t most = std::max(most_bytes, hello_bytes(terms.cuts.size()));
    for (std::size_t c = 0; c < clients_.size(); ++c) {
      if (peers_[c] == terms.transport.self()) continue;
      clients_[c].line =
          std::make_unique<hub_line>(terms.transport, peers_[c], hub_channel(level_) + 1, hub_channel(level_), most);
    }
  }

  // ---- clients -------------------------------------------------------------------------------------------------------

  static std::vector<std::byte> taken_message(const hub_client& client) {
    const answer_header h{.word = hub_word::hello, .fragment = static_cast<std::uint32_t>(client.taken.size())};
    auto bytes = with_header(h, client.taken.size() * sizeof(std::uint64_t));
    std::memcpy(bytes.data() + sizeof h, client.taken.data(), client.taken.size() * sizeof(std::uint64_t));
    return bytes;
  }

  [[nodiscard]] bool listens_to(std::uint32_t c) const {
    return clients_[c].line && clients_[c].here;  // also when it is done: how else would its loss be noticed
  }

  void lose(const hub_terms& terms, std::uint32_t c, const error& why) {
    clients_[c].here = false;
    terms.log(severity::warning,
              "async_parameter_server: going on without peer " + std::to_string(peers_[c]) + ": " + why.text());
  }

  void refuse(const hub_terms& terms, std::uint32_t c, const error& why) {
    lose(terms, c, why);
    reply(c, with_header(answer_header{.word = hub_word::refused, .code = static_cast<std::uint32_t>(why.code)}, 0));
  }

  void reply(std::uint32_t c, std::vector<std::byte> bytes) {
    if (clients_[c].line) {
      clients_[c].line->send(std::move(bytes));
    } else {
      own_answers_.push_back(std::move(bytes));
    }
  }

  /// Pushes of fragment f that the slowest client may still be waited for has made.
  [[nodiscard]] std::uint64_t slowest(std::size_t f) const {
    auto least = std::numeric_limits<std::uint64_t>::max();
    for (const hub_client& c : clients_) {
      if (c.here && !c.done) least = std::min(least, c.taken[f]);
    }
    return least;
  }

  /// Sends the answers that nothing holds back: their clients are not too far ahead.
  void answer_all(const auto& rules, const hub_terms& terms, std::size_t f) {
    const std::uint64_t least = slowest(f);
    std::erase_if(unanswered_[f], [&](const owed_answer& owed) {
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
                          .steps = rules.steps_for(clients_[w.client].speed, speeds()),
                          .code = w.unsound ? static_cast<std::uint32_t>(errc::non_finite) : 0};
    reply(w.client, fragment_answer(terms, h));
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

  [[nodiscard]] std::vector<double> speeds() const {
    std::vector<double> all;
    for (const hub_client& c : clients_) {
      if (c.here && !c.done) all.push_back(c.speed);
    }
    return all;
  }

  // ---- what they say -------------------------------------------------------------------------------------------------

  result<void> meet(const hub_terms& terms, std::uint32_t c, std::span<const std::byte> bytes) {
    CAUSEWAY_ASSIGN(const push_header h, take_header<push_header>(bytes, peers_[c]));
    std::vector<hello_entry> said(terms.cuts.size());
    const auto room = std::as_writable_bytes(std::span{said});
    if (h.word != hub_word::hello || h.fragment != said.size() || h.samples != shared_.size() ||
        bytes.size() != room.size()) {
      return fail(errc::wrong_model, "peer " + std::to_string(peers_[c]),
                  "it trains another model, or cuts it in another way; all peers need the same options");
    }
    std::memcpy(room.data(), bytes.data(), bytes.size());
    hub_client& client = clients_[c];
    client.line->send(taken_message(client));
    for (std::uint32_t f = 0; f < said.size(); ++f) catch_up(terms, c, f, said[f]);
    return {};
  }

  /// After a restart one side may know of pushes that the other has not made, or not heard of. See server_client::agree.
  void catch_up(const hub_terms& terms, std::uint32_t c, std::uint32_t f, const hello_entry& said) {
    hub_client& client = clients_[c];
    const bool is_ahead = client.taken[f] > said.number;
    const bool has_it = said.pending != 0 && client.taken[f] >= said.number;
    bool will_be_answered = false;
    for (waiting_push& w : batches_[f]) {
      if (w.client != c) continue;
      w.wants_answer = said.pending != 0 && w.number == said.number ? 1 : 0;  // it does not know of others any more
      will_be_answered = will_be_answered || w.wants_answer != 0;
    }
    std::erase_if(unanswered_[f], [&](const owed_answer& owed) {
      const bool expected = said.pending != 0 && owed.number == said.number;
      if (owed.client == c) will_be_answered = will_be_answered || expected;
      return owed.client == c && !expected;
    });
    if ((is_ahead || has_it) && !will_be_answered) {
      reply(c, fragment_answer(terms, {.fragment = f, .number = client.taken[f]}));
    }
    client.taken[f] = std::max(client.taken[f], said.number - (said.pending != 0 ? 1 : 0));
  }

  result<void> understand(const hub_terms& terms, std::uint32_t c, std::span<const std::byte> bytes) {
    CAUSEWAY_ASSIGN(const push_header h, take_header<push_header>(bytes, peers_[c]));
    hub_client& client = clients_[c];
    if (h.word == hub_word::done && !client.done) {
      client.done = true;
      return {};
    }
    if (h.word == hub_word::waits && h.fragment < batches_.size()) {
      client.waits = is_among(batches_[h.fragment], c) || is_among(unanswered_[h.fragment], c);
      return {};
    }
    const bool sane = std::isfinite(h.speed) && h.speed >= 0 && std::isfinite(h.sync_seconds);
    if (h.word != hub_word::push || h.fragment >= batches_.size() || h.number != client.taken[h.fragment] + 1 ||
        client.done || !sane) {
      return fail(errc::protocol, "peer " + std::to_string(peers_[c]),
                  "it sent a push that makes no sense; do all peers run the same options and version?");
    }
    const auto of_client = [c](const waiting_push& w) { return w.client == c; };
    if (std::count_if(batches_[h.fragment].begin(), batches_[h.fragment].end(), of_client) >= most_waiting) {
      return fail(errc::too_large, "peer " + std::to_string(peers_[c]),
                  "it goes on pushing while " + std::to_string(most_waiting) +
                      " of its pushes wait; a client waits for the answer to one before it makes the next");
    }
    CAUSEWAY_ASSIGN(const hub_work work, credible(level_ == 0 ? terms.most : push_limits{}, h, peers_[c]));
    client.taken[h.fragment] = h.number;
    client.samples[h.fragment] = work.samples;
    client.speed = h.speed;
    client.sync_seconds = h.sync_seconds;
    const auto* const from = reinterpret_cast<const std::uint8_t*>(bytes.data());
    batches_[h.fragment].push_back({.client = c,
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
    for (std::size_t f = 0; f < batches_.size(); ++f) {
      if (!batches_[f].empty() && is_due(rules, terms, f)) apply(rules, terms, f);
      answer_all(rules, terms, f);
    }
  }

  [[nodiscard]] bool is_due(const auto& rules, const hub_terms& terms, std::size_t f) const {
    const auto& batch = batches_[f];
    const time_point first = batch.front().since;
    std::vector<double> arrived;
    for (const waiting_push& w : batch) arrived.push_back(seconds(w.since - first));
    const std::size_t expected = expected_for(f);
    if (batch.size() >= expected) return true;
    const axis::waiting_pushes g{.arrived = arrived, .expected = expected, .slack = slack_of(rules, batch)};
    return seconds(terms.now() - first) >= rules.arrivals.closes_after(g);
  }

  /// Clients that may still push this fragment, or have. One that waits for another fragment may not: if it counted, two
  /// clients could wait for each other.
  [[nodiscard]] std::size_t expected_for(std::size_t f) const {
    std::size_t count = 0;
    for (std::uint32_t c = 0; c < clients_.size(); ++c) {
      const hub_client& client = clients_[c];
      const bool may_push = client.here && !client.done && !client.waits && !is_among(unanswered_[f], c);
      count += is_among(batches_[f], c) || may_push ? 1U : 0U;
    }
    return count;
  }

  static bool is_among(const auto& pushes, std::uint32_t c) {
    return std::any_of(pushes.begin(), pushes.end(), [c](const auto& w) { return w.client == c; });
  }

  /// The samples behind a merged batch over those of all clients, an absent one with what its last push had: 1 when all
  /// are there. One that has not pushed yet counts as the mean of the batch; one that never did and is done, as nothing.
  [[nodiscard]] float share_of(std::size_t f, std::span<const waiting_push> batch) const {
    double arrived = 0, absent = 0, pushes = 0, unknown = 0, here = 0;
    for (std::uint32_t c = 0; c < clients_.size(); ++c) {
      if (!clients_[c].here) continue;
      ++here;
      const auto samples = static_cast<double>(clients_[c].samples[f]);
      if (std::any_of(batch.begin(), batch.end(), [c](const auto& w) { return w.client == c && !w.unsound; })) {
        arrived += samples;
        ++pushes;
      } else {
        absent += samples;
        unknown += samples == 0 && !clients_[c].done ? 1 : 0;
      }
    }
    if (arrived == 0) return here == 0 ? 1.0F : static_cast<float>(pushes / here);
    return static_cast<float>(arrived / (arrived + absent + unknown * arrived / pushes));
  }

  [[nodiscard]] double slack_of(const auto& rules, const std::vector<waiting_push>& batch) const {
    double least = std::numeric_limits<double>::infinity();
    for (const waiting_push& w : batch) {
      const hub_client& c = clients_[w.client];
      least = std::min(least, c.speed > 0 ? rules.merge_steps / c.speed - c.sync_seconds : 0.0);
    }
    return least;
  }

  void apply(const auto& rules, const hub_terms& terms, std::size_t f) {
    std::vector<waiting_push> batch = std::exchange(batches_[f], {});
    if constexpr (std::remove_cvref_t<decltype(rules)>::arrivals_type::merges) {
      std::stable_sort(batch.begin(), batch.end(), [](const auto& a, const auto& b) { return a.client < b.client; });
      move_shared(rules, terms, f, batch);
      for (const waiting_push& w : batch) owe(w, f);
    } else {
      for (waiting_push& w : batch) {
        move_shared(rules, terms, f, std::span{&w, 1});
        owe(w, f);
        answer_all(rules, terms, f);
      }
    }
  }

  void owe(const waiting_push& w, std::size_t f) {
    if (w.wants_answer != 0) unanswered_[f].push_back({w.client, w.number, w.since, w.unsound});
  }

  /// The outer step with what the pushes say together, without those that cannot be used.
  void move_shared(const auto& rules, const hub_terms& terms, std::size_t f, std::span<waiting_push> batch) {
    const auto bad = [&](const waiting_push& w, errc why) {
      batch[static_cast<std::size_t>(&w - batch.data())].unsound = true;
      object(terms, w, f, collective::to_error({peers_[w.client], why}, UINT32_MAX));
    };
    const merged_pushes merged = aggregator_.merge(rules, terms, level_, f, batch, bad);
    for (const waiting_push& w : batch) {
      if (!w.unsound) clients_[w.client].unsound = 0;
    }
    if (merged.pushes == 0) return;
    applied_[f] += merged.pushes;
    samples_[f] += merged.samples;
    constexpr bool merges = std::remove_cvref_t<decltype(rules)>::arrivals_type::merges;
    step_outer(terms, terms.cuts[f], outers_[f], merges ? share_of(f, batch) : 1.0F);
  }

  /// Values that are not finite cost a client what it computed; anything else, its place. So does a server below that
  /// shares such values: all its clients have them.
  void object(const hub_terms& terms, const waiting_push& w, std::size_t f, const error& why) {
    const bool may_start_over = why.code == errc::non_finite && level_ == 0 && clients_[w.client].unsound < most_unsound;
    if (!may_start_over) return refuse(terms, w.client, why);
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

  // Of one client and fragment: the one that it waits for, and one from before its restart. So what waits at a hub is
  // bounded by its clients.
  static constexpr std::ptrdiff_t most_waiting = 2;
  static constexpr std::uint32_t most_unsound = 8;  // pushes in a row that are not finite

  Outer prototype_;
  std::uint32_t level_ = 0;
  std::vector<net::peer_index> peers_;
  std::vector<float> shared_;
  std::vector<Outer> outers_;  ///< one for each fragment
  std::vector<hub_client> clients_;
  std::vector<std::vector<waiting_push>> batches_;    ///< of each fragment, in the order of arrival
  std::vector<std::vector<owed_answer>> unanswered_;  ///< of each fragment
  std::vector<std::uint32_t> applied_;
  std::vector<std::uint64_t> samples_;
  std::deque<std::vector<std::byte>> own_answers_;

  push_aggregator aggregator_;
  std::vector<float> opened_;  // working memory
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_PARAMETER_SERVER_HPP
