// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_DIALER_HPP
#define CAUSEWAY_SIM_DIALER_HPP

// How two simulated fabrics come to know each other. The dialler says who it is and where it lives, the other answers in
// kind: then both have a connection to an id. Two peers that dial each other at once end with one connection, the one that
// the smaller id dialled. A peer that has lost its connection, or its life, may dial anew before the other has noticed.

#include <causeway/core/error.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/sim/network.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

CAUSEWAY_DECL std::string address_text(network& net, host_index host, std::uint32_t port);

struct network_address {
  host_index host = no_host;
  std::uint32_t port = 0;
};

/// "host-3:1". No host: the text is no address of this network.
CAUSEWAY_DECL network_address parse_address(const network& net, const std::string& text);

/// What a dialer asks and tells.
class acquaintance {
 public:
  virtual ~acquaintance() = default;
  /// Whether a connection to `id` stands, in the eyes of both sides.
  virtual bool connected_to(net::peer_id id) = 0;
  /// `end` is a connection to `id`; it replaces an older one.
  virtual void met(end_ref end, net::peer_id id, const std::string& address) = 0;
  virtual void not_met(const std::string& address, const error& why) = 0;
};

class dialer {
 public:
  CAUSEWAY_DECL dialer(network& net, host_index host, net::peer_id id, std::string address, socket_owner& sockets,
                       acquaintance& owner);

  /// Once for each address at a time; ends with met or not_met.
  CAUSEWAY_DECL void dial(const std::string& address, const network_address& to);

  /// Answers whoever came before now, and from now on everybody at once.
  CAUSEWAY_DECL void open_doors();
  void close_doors() { open_ = false; }

  /// The process is over.
  CAUSEWAY_DECL void stop();

  // ---- what the network says; false: it is not about meeting -----------------------------------------------------------

  CAUSEWAY_DECL void connected(end_ref end, std::uint64_t tag);

  void failed(std::uint64_t tag, const error& why) { end_dial(tag, why); }

  CAUSEWAY_DECL bool heard(end_ref end, const sent_message& message);

  CAUSEWAY_DECL bool closed(end_ref end, const error& why);

 private:
  struct outgoing {
    std::string address;
    end_ref end;           ///< once the connection stands
    bool refused = false;  ///< the other side's own dial is under way instead
    std::uint64_t attempt = 0;
    scheduler::ticket deadline = 0;
  };
  using dial_map = std::map<std::uint64_t, outgoing>;

  struct greeting {
    end_ref end;
    net::peer_id id = 0;
    std::string address;
  };

  CAUSEWAY_DECL dial_map::iterator find(const std::string& address);
  CAUSEWAY_DECL dial_map::iterator find(end_ref end);

  CAUSEWAY_DECL void attach(outgoing& o, std::uint64_t tag, end_ref end);
  CAUSEWAY_DECL void detach(outgoing& o);

  CAUSEWAY_DECL void say(end_ref end, content what);

  CAUSEWAY_DECL static std::string text_of(const sent_message& message);

  CAUSEWAY_DECL void hear_hello(end_ref end, const sent_message& message);

  CAUSEWAY_DECL void accept(const greeting& g);

  CAUSEWAY_DECL void hear_welcome(end_ref end, const sent_message& message);

  /// The other side prefers its own dial to ours: that one will come.
  CAUSEWAY_DECL void hear_refusal(end_ref end);

  /// Ends a dial without a word.
  CAUSEWAY_DECL void forget(std::uint64_t tag);

  CAUSEWAY_DECL void end_dial(std::uint64_t tag, const error& why);

  network& net_;
  host_index host_;
  net::peer_id id_;
  std::string address_;
  socket_owner& sockets_;
  acquaintance& owner_;
  bool open_ = false;
  dial_map dials_;
  std::unordered_map<std::string, std::uint64_t> by_address_;
  std::unordered_map<std::uint64_t, std::uint64_t> by_end_;
  std::uint64_t last_ = 0;
  std::deque<greeting> early_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/sim/impl/dialer.ipp>
#endif

#endif  // CAUSEWAY_SIM_DIALER_HPP
