// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SERVING_BLOCK_SERVER_DIRECTORY_HPP
#define CAUSEWAY_PARALLEL_SERVING_BLOCK_SERVER_DIRECTORY_HPP

// A client's network: which servers are there, what they hold, how far away they are. The part of block_client.hpp that
// does not depend on the codec.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/serving/block_messages.hpp>
#include <causeway/stage/block_routing.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

struct block_client_options {
  std::uint64_t run = 0;                        ///< names the weights: the servers'
  std::vector<std::string> dial{};              ///< addresses of servers; they tell of the rest
  std::int64_t most_rows = 1024;                ///< sent as one request; a batch goes in pieces of whole sequences
  duration patience = std::chrono::minutes{3};  ///< who answers later is left
  duration give_up = std::chrono::minutes{10};  ///< how long a step waits for a block that nobody serves
  duration heartbeat = std::chrono::seconds{1};
  stage::span_directory_options directory{};
};

/// To be used with the fabric's lock held, but for what is public.
class block_server_directory : protected net::fabric_events {
 public:
  block_server_directory(const block_server_directory&) = delete;
  block_server_directory& operator=(const block_server_directory&) = delete;

  /// Waits until every block is served; false when the deadline came first.
  CAUSEWAY_DECL result<bool> wait_for_blocks(time_point deadline);
  /// A copy of what is known of servers.
  CAUSEWAY_DECL [[nodiscard]] stage::span_directory directory();

 protected:
  CAUSEWAY_DECL block_server_directory(std::shared_ptr<net::fabric> fabric, std::uint64_t run, std::int64_t layers,
                                       block_client_options options, log_sink log);
  ~block_server_directory() override = default;

  CAUSEWAY_DECL void listen();

  CAUSEWAY_DECL [[nodiscard]] std::optional<net::peer_index> link_to(net::peer_id server) const;
  void post(net::peer_index link, const block_wire::message& m) { fabric_->post(link, block_wire::encode(run_, m)); }

  CAUSEWAY_DECL [[nodiscard]] error nobody_there(time_point now) const;

  std::shared_ptr<net::fabric> fabric_;
  block_client_options options_;
  std::uint64_t run_;
  log_sink log_;
  stage::span_directory directory_;
  std::set<net::peer_index> down_;  // since somebody looked
  bool news_ = false;

 private:
  // ---- net::fabric_events

  CAUSEWAY_INLINE void on_up(net::peer_index link, net::peer_id id, const std::string&) override;
  CAUSEWAY_INLINE void on_down(net::peer_index link, const error&) override;
  void on_unreachable(const std::string&, const error&) override {}
  CAUSEWAY_INLINE void on_control(net::peer_index link, std::span<const std::byte> bytes) override;
  CAUSEWAY_INLINE void on_wake() override;

  CAUSEWAY_DECL void hear(net::peer_index link, const block_wire::announcement& a);
  CAUSEWAY_DECL void hear(net::peer_index, const block_wire::addresses& a);
  CAUSEWAY_DECL void hear(net::peer_index, const block_wire::request&);
  CAUSEWAY_DECL void hear(net::peer_index link, const block_wire::probe& p);
  CAUSEWAY_DECL void hear(net::peer_index link, const block_wire::echo& e);

  [[nodiscard]] std::uint64_t mark() const { return static_cast<std::uint64_t>(fabric_->now().since_start.count()); }

  std::set<std::string> addresses_;  // of servers
  std::map<net::peer_index, net::peer_id> links_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/serving/impl/block_server_directory.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_SERVING_BLOCK_SERVER_DIRECTORY_HPP
