// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SERVING_BLOCK_REQUEST_HANDLER_HPP
#define CAUSEWAY_PARALLEL_SERVING_BLOCK_REQUEST_HANDLER_HPP

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
#include <causeway/parallel/serving/block_messages.hpp>
#include <causeway/stage/block_choice.hpp>

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
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

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
class block_request_handler : protected net::fabric_events {
 public:
  block_request_handler(const block_request_handler&) = delete;
  block_request_handler& operator=(const block_request_handler&) = delete;

 protected:
  struct model_limits {
    std::uint64_t run = 0;
    std::int64_t layers = 0;
    std::int64_t context = 0;
    std::int64_t width = 0;
    nn::map_sizes maps{};
    std::size_t most_bytes_a_row = 0;  ///< encoded
  };

  CAUSEWAY_DECL block_request_handler(std::shared_ptr<net::fabric> fabric, block_server_options options,
                                      const model_limits& limits, log_sink log);
  ~block_request_handler() override = default;

  CAUSEWAY_DECL void listen();

  /// Says to everybody what is held; nothing while nothing is.
  CAUSEWAY_DECL void announce();

  /// What other servers hold, and this one.
  CAUSEWAY_DECL [[nodiscard]] std::vector<stage::served_span> spans();

  /// The request is answered, or will not be.
  CAUSEWAY_DECL void finished(const admitted_request& r);
  CAUSEWAY_DECL [[nodiscard]] bool connected(const admitted_request& r) const;

  /// Nothing of it is heard or answered any more.
  CAUSEWAY_DECL void send_away(net::peer_index link, const std::string& why);

  CAUSEWAY_DECL [[nodiscard]] double throughput() const;

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

  CAUSEWAY_DECL void forget(net::peer_index link);

  void post(net::peer_index link, const block_wire::message& m) { fabric_->post(link, block_wire::encode(limits_.run, m)); }

  CAUSEWAY_DECL void announce(net::peer_index link);

  /// Why it is not let in; empty where it is.
  CAUSEWAY_DECL [[nodiscard]] std::string objection(const session& s, const block_wire::request& r) const;

  // ---- net::fabric_events

  CAUSEWAY_INLINE void on_up(net::peer_index link, net::peer_id id, const std::string& address) override;
  void on_down(net::peer_index link, const error&) override { forget(link); }
  void on_unreachable(const std::string&, const error&) override {}
  CAUSEWAY_INLINE void on_control(net::peer_index link, std::span<const std::byte> bytes) override;
  CAUSEWAY_INLINE void on_wake() override;

  CAUSEWAY_DECL void take(net::peer_index link, const block_wire::request& r);
  CAUSEWAY_DECL void take(net::peer_index link, const block_wire::announcement& a);
  CAUSEWAY_DECL void take(net::peer_index, const block_wire::addresses& a);
  CAUSEWAY_DECL void take(net::peer_index link, const block_wire::probe& p);
  CAUSEWAY_DECL void take(net::peer_index, const block_wire::echo&);

  CAUSEWAY_DECL void learn(const std::string& address);
  CAUSEWAY_DECL void tell_addresses(net::peer_index link);

  std::map<net::peer_index, session> sessions_;
  std::map<net::peer_index, other_server> others_;
  std::set<std::string> addresses_;  // of servers
  std::uint64_t last_session_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/serving/impl/block_request_handler.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_SERVING_BLOCK_REQUEST_HANDLER_HPP
