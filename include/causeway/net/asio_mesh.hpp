// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_MESH_HPP
#define CAUSEWAY_NET_ASIO_MESH_HPP

// How peers that know each other's addresses become a full mesh: everybody listens, dials all peers of a lower index, and
// names itself on each connection. Also the loop that runs until the mesh stands, a deadline passes or somebody says stop.

#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/asio_accept.hpp>
#include <causeway/net/asio_conversation.hpp>
#include <causeway/net/asio_library.hpp>
#include <causeway/net/asio_listener.hpp>
#include <causeway/net/asio_transport.hpp>
#include <causeway/net/descriptors.hpp>
#include <causeway/net/half_open.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

inline constexpr std::chrono::seconds handshake_patience{10};
inline constexpr std::size_t handshake_bytes = std::size_t{4} << 10U;  ///< parsed of a stranger
inline constexpr std::size_t most_strangers = 128;
inline constexpr std::size_t most_streams = 64;

/// Accepts strangers, dials peers, and collects the sockets of all links. Roles with more to say add handlers. Everything
/// runs on the thread that calls `run`.
class mesh_builder {
 public:
  using hello_handler = std::function<void(conversation_ptr, const frame_header&, std::span<const std::byte>)>;

  CAUSEWAY_DECL mesh_builder(listener& from, const rendezvous_options& options);
  mesh_builder(const mesh_builder&) = delete;
  mesh_builder& operator=(const mesh_builder&) = delete;
  ~mesh_builder() { shut_down(); }

  CAUSEWAY_DECL void on_hello(hello_handler handler);
  /// Called every 50 ms or more often while `run` runs.
  CAUSEWAY_DECL void on_tick(std::function<void(time_point)> handler);
  void set_run(std::uint64_t run_id) { run_id_ = run_id; }
  [[nodiscard]] std::uint64_t run_id() const noexcept { return run_id_; }
  [[nodiscard]] asio::io_context& io() noexcept { return *io_; }

  /// Starts making the links of peer `self` of `addresses.size()`. `token` tells this gathering from earlier ones.
  CAUSEWAY_DECL void connect_all(peer_index self, std::vector<endpoint> addresses, std::uint64_t token,
                                 std::size_t streams);

  /// Forgets the links made so far, and those that are being made: `connect_all` may be called again. Not from a handler of
  /// a link that is being made.
  CAUSEWAY_DECL void disconnect_all();

  /// Called once, when the last link stands.
  CAUSEWAY_DECL void on_complete(std::function<void()> handler);

  /// Why dialling failed last: ": reason", or nothing.
  CAUSEWAY_DECL [[nodiscard]] std::string last_failure() const;

  /// All links stand.
  CAUSEWAY_DECL [[nodiscard]] bool complete() const;

  [[nodiscard]] bool linked(peer_index peer) const { return peer < sockets_.size() && link_complete(sockets_[peer]); }
  /// Streams that stand.
  CAUSEWAY_DECL [[nodiscard]] std::size_t streams_made() const;

  /// Dials until somebody answers. `again`: the last connection broke, so pause first.
  CAUSEWAY_DECL void dial(const endpoint& target, dialer::connect_handler connected, bool again = false);

  CAUSEWAY_DECL void fail_with(error why);

  /// Runs until `done`, the first failure, the deadline or a request to stop. `late` describes what was missing.
  template <class Done, class Late>
  result<void> run(Done done, Late late) {
    while (!failure_ && !done()) {
      turned_away_.flush(clock_.now());
      if (tick_) tick_(clock_.now());
      if (options_->stop != nullptr && options_->stop->load()) {
        return fail(errc::cancelled, "rendezvous", "stopped on request before all peers were connected");
      }
      if (clock_.now() >= options_->deadline) return late();
      const auto turn = std::chrono::steady_clock::now() + std::chrono::milliseconds{50};
      const std::chrono::steady_clock::time_point limit{
          std::chrono::duration_cast<std::chrono::steady_clock::duration>(options_->deadline.since_start)};
      io_->restart();
      io_->run_one_until(std::min(turn, limit));
    }
    if (failure_) return *failure_;
    return {};
  }

  /// Who is still missing, and why as far as we know: for messages.
  CAUSEWAY_DECL [[nodiscard]] std::string missing() const;

  CAUSEWAY_DECL [[nodiscard]] asio_transport finish();

  CAUSEWAY_DECL void reject(const conversation_ptr& who, const error& why);

  /// The checks that every first frame must pass. Null when it does.
  CAUSEWAY_DECL std::optional<error> check_run(std::uint64_t run_id, std::uint64_t model) const;

 private:
  using link_sockets = std::vector<std::optional<tcp::socket>>;
  struct early_link {
    conversation_ptr who;
    frame_header header;
    std::vector<std::byte> body;
  };

  CAUSEWAY_DECL static bool link_complete(const link_sockets& link);
  static bool has_value(const std::optional<tcp::socket>& s) { return s.has_value(); }

  /// One stranger goes. False when there is none.
  CAUSEWAY_DECL bool make_room();
  CAUSEWAY_DECL void send_away(const conversation_ptr& who);

  // ---- strangers

  CAUSEWAY_DECL std::shared_ptr<accepting> make_accepting(std::unique_ptr<tcp::acceptor> acceptor);

  CAUSEWAY_DECL void meet(tcp::socket socket);

  // ---- links

  CAUSEWAY_DECL void dial_peer(peer_index peer, std::size_t stream, bool again = false);

  CAUSEWAY_DECL void start_link(peer_index peer, const conversation_ptr& who);

  /// A peer of a higher index names itself on a new connection.
  CAUSEWAY_DECL void take_link(const conversation_ptr& who, const frame_header& h, std::span<const std::byte> body);

  CAUSEWAY_DECL void keep(peer_index peer, std::size_t stream, const conversation_ptr& who);

  CAUSEWAY_DECL void tell_if_complete();

  /// Ends everything that is under way, so that no handler refers to us any more. Sockets of links stay.
  CAUSEWAY_DECL void shut_down();

  std::unique_ptr<asio::io_context> io_;
  std::shared_ptr<accepting> accepting_;
  const rendezvous_options* options_;
  std::uint64_t run_id_;
  peer_index self_ = 0;
  informant informant_;
  std::uint64_t token_ = 0;
  std::size_t streams_ = 0;
  std::vector<endpoint> addresses_;
  std::vector<link_sockets> sockets_;
  half_open<conversation_ptr> strangers_{most_strangers};  // connected, nothing said yet
  std::set<conversation_ptr> talking_;                     // between `link` and `link_ok`
  std::vector<early_link> early_;
  std::vector<std::shared_ptr<dialer>> dialers_;
  hello_handler hello_;
  std::function<void(time_point)> tick_;
  stranger_log turned_away_;
  steady_clock clock_;
  std::function<void()> completed_;
  std::optional<error> failure_;
  bool over_ = false;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/asio_mesh.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_MESH_HPP
