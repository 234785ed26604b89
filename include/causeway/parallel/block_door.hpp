// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_BLOCK_DOOR_HPP
#define CAUSEWAY_PARALLEL_BLOCK_DOOR_HPP

// A block server's network: who is there, what other servers hold, and which requests are let in. A client is trusted with
// nothing: what it asks for must lie within what was announced, and it has at most so many requests here at once. Memory
// for a request's rows is taken only when its turn comes.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/nn/adapters.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/block_messages.hpp>
#include <causeway/stage/block_choice.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::parallel {

struct block_server_options {
  std::uint64_t run = 0;                               ///< names the weights: equal on all who have the same
  std::vector<std::string> dial{};                     ///< addresses of other servers; they tell of the rest
  std::int64_t blocks = 1;                             ///< that it holds
  std::optional<std::int64_t> first{};                 ///< always from this one; none: where the swarm is worst off
  duration look_around = std::chrono::seconds{5};      ///< for how long it listens at least before it chooses
  duration rebalance_every = std::chrono::minutes{2};  ///< on average; only where `first` is none
  double quality = 0.75;   ///< moves if the least throughput is less than this part of what it could be
  std::uint64_t seed = 0;  ///< of when it looks; another one for each server
  duration heartbeat = std::chrono::seconds{1};
  duration life = std::chrono::seconds{5};  ///< of an announcement
  std::uint32_t most_rows = 8192;   ///< of a request, those of what is tuned too: 4·width bytes of adapters are one
  std::uint32_t most_requests = 4;  ///< of a client at once
  duration patience = std::chrono::minutes{2};  ///< for the rows of a request whose turn came
  std::size_t most_held = 16;                   ///< requests whose rows are here or on their way
};

/// A request that was let in, of the client's `session`-th connection.
struct admitted_request {
  net::peer_index link = 0;
  std::uint64_t session = 0;
  block_wire::request what{};
  time_point since{};  ///< its turn came
};

/// To be used with the fabric's lock held, as events come.
class block_door : protected net::fabric_events {
 public:
  block_door(const block_door&) = delete;
  block_door& operator=(const block_door&) = delete;

 protected:
  struct model_limits {
    std::uint64_t run = 0;
    std::int64_t layers = 0;
    std::int64_t context = 0;
    std::int64_t width = 0;
    nn::map_sizes maps{};
    std::size_t most_bytes_a_row = 0;  ///< encoded
  };

  block_door(std::shared_ptr<net::fabric> fabric, block_server_options options, const model_limits& limits, log_sink log)
      : fabric_{std::move(fabric)},
        options_{std::move(options)},
        limits_{limits},
        log_{std::move(log)},
        addresses_{options_.dial.begin(), options_.dial.end()} {}
  ~block_door() override = default;

  void listen() {
    fabric_->attach(this);
    fabric_->locked([this] { on_wake(); });
  }

  /// Says to everybody what is held; nothing while nothing is.
  void announce() {
    for (const auto& [link, s] : sessions_) announce(link);
  }

  /// What other servers hold, and this one.
  [[nodiscard]] std::vector<stage::served_span> spans() {
    std::erase_if(others_, [now = fabric_->now()](const auto& one) { return one.second.until <= now; });
    std::vector<stage::served_span> all;
    for (const auto& [link, o] : others_) all.push_back(o.span);
    if (serving_.size() > 0) all.push_back({fabric_->id(), serving_, throughput()});
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
    return all;
  }

  /// The request is answered, or will not be.
  void finished(const admitted_request& r) {
    const auto found = sessions_.find(r.link);
    if (found == sessions_.end() || found->second.number != r.session) return;
    --found->second.requests;
    found->second.work -= r.what.work();
  }
  [[nodiscard]] bool connected(const admitted_request& r) const {
    const auto found = sessions_.find(r.link);
    return found != sessions_.end() && found->second.number == r.session;
  }

  /// Nothing of it is heard or answered any more.
  void send_away(net::peer_index link, const std::string& why) {
    log_(severity::warning, "a client is sent away: " + why);
    forget(link);
    fabric_->close(link, why);
  }

  [[nodiscard]] double throughput() const {
    return seconds_ > 0 ? 1.0 / (seconds_ * static_cast<double>(serving_.size())) : 1.0;
  }

  std::shared_ptr<net::fabric> fabric_;
  block_server_options options_;
  model_limits limits_;
  log_sink log_;
  nn::block_range serving_{};              // none: nothing is announced
  double seconds_ = 0;                     // for a row through a block, forward
  std::deque<admitted_request> incoming_;  // whose rows are not received yet

 private:
  struct session {
    std::uint64_t number = 0;
    net::peer_id id = 0;
    std::uint32_t requests = 0;
    double work = 0;
    std::string address;
  };
  struct other_server {
    stage::served_span span;
    time_point until;
  };

  void forget(net::peer_index link) {
    sessions_.erase(link);
    others_.erase(link);
    std::erase_if(incoming_, [link](const auto& r) { return r.link == link; });
  }

  void post(net::peer_index link, const block_wire::message& m) { fabric_->post(link, block_wire::encode(limits_.run, m)); }

  void announce(net::peer_index link) {
    if (serving_.size() == 0) return;
    double work = 0;  // of others: it knows its own
    for (const auto& [other, s] : sessions_) work += other == link ? 0 : s.work;
    const auto life = std::chrono::duration_cast<std::chrono::milliseconds>(options_.life).count();
    post(link, block_wire::announcement{static_cast<std::uint32_t>(life),
                                        {serving_, seconds_, work * seconds_, options_.most_requests, options_.most_rows},
                                        throughput()});
  }

  /// Why it is not let in; empty where it is.
  [[nodiscard]] std::string objection(const session& s, const block_wire::request& r) const {
    if (s.requests >= options_.most_requests) return "more requests at once than were announced";
    if (!r.adapters.fits(limits_.maps)) return "adapters beside maps that the model does not have";
    if (r.rows() + r.blocks.size() * r.tuning().rows(limits_.width, limits_.maps) > options_.most_rows) {
      return "more rows, with prompts and adapters, than were announced";
    }
    if (r.tokens > limits_.context || r.blocks.last > limits_.layers) return "more tokens or blocks than the model has";
    if (r.x_bytes > static_cast<std::size_t>(r.rows()) * limits_.most_bytes_a_row) return "more bytes than rows take";
    return {};
  }

  // ---- net::fabric_events

  void on_up(net::peer_index link, net::peer_id id, const std::string& address) override {
    sessions_[link] = {++last_session_, id, 0, 0, address};
    tell_addresses(link);
    announce(link);
  }
  void on_down(net::peer_index link, const error&) override { forget(link); }
  void on_unreachable(const std::string&, const error&) override {}
  void on_control(net::peer_index link, std::span<const std::byte> bytes) override {
    if (!sessions_.contains(link)) return;  // it was sent away
    auto m = block_wire::decode(limits_.run, bytes);
    if (!m) return send_away(link, m.error().message);
    std::visit([&](auto& what) { take(link, what); }, *m);
  }
  void on_wake() override {
    for (const std::string& a : addresses_) fabric_->dial(a);
    announce();
    fabric_->wake_at(fabric_->now() + options_.heartbeat);
  }

  void take(net::peer_index link, const block_wire::request& r) {
    session& s = sessions_[link];
    if (const std::string why = objection(s, r); !why.empty()) return send_away(link, why);
    const admitted_request let_in{link, s.number, r, {}};
    ++s.requests;
    s.work += let_in.what.work();
    incoming_.push_back(let_in);
  }
  void take(net::peer_index link, const block_wire::announcement& a) {
    if (a.offer.blocks.last > limits_.layers) return send_away(link, "blocks that the model does not have");
    const session& s = sessions_[link];
    others_[link] = {{s.id, a.offer.blocks, a.throughput}, fabric_->now() + std::chrono::milliseconds{a.milliseconds}};
    if (!s.address.empty()) learn(s.address);
  }
  void take(net::peer_index, const block_wire::addresses& a) {
    for (const std::string& one : a.list) learn(one);
  }
  void take(net::peer_index link, const block_wire::probe& p) { post(link, block_wire::echo{p.mark}); }
  void take(net::peer_index, const block_wire::echo&) {}

  void learn(const std::string& address) {
    if (address == fabric_->address() || addresses_.size() >= block_wire::most_addresses) return;
    if (!addresses_.insert(address).second) return;
    fabric_->dial(address);
    for (const auto& [link, s] : sessions_) tell_addresses(link);
  }
  void tell_addresses(net::peer_index link) {
    block_wire::addresses all;
    for (const std::string& a : addresses_) {
      if (a.size() <= block_wire::longest_address) all.list.push_back(a);
    }
    if (!all.list.empty()) post(link, all);
  }

  std::map<net::peer_index, session> sessions_;
  std::map<net::peer_index, other_server> others_;
  std::set<std::string> addresses_;  // of servers
  std::uint64_t last_session_ = 0;
};

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_BLOCK_DOOR_HPP
