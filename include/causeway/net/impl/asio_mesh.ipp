// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ASIO_MESH_IPP
#define CAUSEWAY_NET_IMPL_ASIO_MESH_IPP

#include <causeway/net/asio_mesh.hpp>

#include <causeway/net/asio_accept.hpp>
#include <causeway/net/asio_mesh_engine.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL mesh_builder::mesh_builder(listener& from, const rendezvous_options& options)
    : io_{std::move(from.port->io)},
      accepting_{make_accepting(std::move(from.port->acceptor))},
      options_{&options},
      run_id_{options.run_id},
      informant_{options.pieces},
      turned_away_{options.transport.log} {
  raise_descriptor_limit();
  accepting_->start();
}

CAUSEWAY_DECL void mesh_builder::on_hello(hello_handler handler) { hello_ = std::move(handler); }

CAUSEWAY_DECL void mesh_builder::on_tick(std::function<void(time_point)> handler) { tick_ = std::move(handler); }

CAUSEWAY_DECL void mesh_builder::on_complete(std::function<void()> handler) { completed_ = std::move(handler); }

CAUSEWAY_DECL void mesh_builder::connect_all(peer_index self, std::vector<endpoint> addresses, std::uint64_t token,
                                             std::size_t streams) {
  self_ = self;
  token_ = token;
  streams_ = streams;
  addresses_ = std::move(addresses);
  sockets_.resize(addresses_.size());
  for (peer_index peer = 0; peer < self; ++peer) dial_peer(peer, 0);
  for (auto& early : std::exchange(early_, {})) take_link(early.who, early.header, early.body);
  tell_if_complete();
}

CAUSEWAY_DECL void mesh_builder::disconnect_all() {
  for (const auto& d : std::exchange(dialers_, {})) d->stop();
  for (const auto& who : std::exchange(talking_, {})) who->stop();
  for (const auto& e : std::exchange(early_, {})) e.who->stop();
  sockets_.clear();
  addresses_.clear();
  completed_ = {};
}

CAUSEWAY_DECL std::string mesh_builder::last_failure() const {
  for (const auto& d : dialers_) {
    if (!d->last_failure().empty()) return ": " + d->last_failure();
  }
  return {};
}

CAUSEWAY_DECL bool mesh_builder::complete() const {
  if (addresses_.empty()) return false;
  for (std::size_t peer = 0; peer < sockets_.size(); ++peer) {
    if (peer != self_ && !link_complete(sockets_[peer])) return false;
  }
  return true;
}

CAUSEWAY_DECL std::size_t mesh_builder::streams_made() const {
  std::size_t made = 0;
  for (const auto& link : sockets_) made += static_cast<std::size_t>(std::count_if(link.begin(), link.end(), has_value));
  return made;
}

CAUSEWAY_DECL void mesh_builder::dial(const endpoint& target, dialer::connect_handler connected, bool again) {
  std::erase_if(dialers_, [](const auto& d) { return !d->busy(); });
  dialers_.push_back(std::make_shared<dialer>(*io_, target, std::move(connected)));
  again ? dialers_.back()->dial_later() : dialers_.back()->dial();
}

CAUSEWAY_DECL void mesh_builder::fail_with(error why) {
  if (!failure_) failure_ = std::move(why);
}

CAUSEWAY_DECL std::string mesh_builder::missing() const {
  std::string text;
  for (std::size_t peer = 0; peer < sockets_.size(); ++peer) {
    if (peer == self_ || link_complete(sockets_[peer])) continue;
    text += (text.empty() ? "" : ", ") + peer_name(static_cast<peer_index>(peer)) + " (" + addresses_[peer].text() + ")";
  }
  for (const auto& d : dialers_) {
    if (d->busy() && !d->last_failure().empty()) text += "; " + d->target().text() + ": " + d->last_failure();
  }
  return text.empty() ? std::string{"nobody"} : text;
}

CAUSEWAY_DECL asio_transport mesh_builder::finish() {
  shut_down();
  std::vector<std::vector<tcp::socket>> sockets;
  for (auto& link : sockets_) {
    auto& streams = sockets.emplace_back();
    for (auto& socket : link) streams.push_back(std::move(*socket));
  }
  return asio_transport{
      std::make_shared<mesh_engine>(self_, run_id_, mesh{std::move(io_), std::move(sockets)}, options_->transport)};
}

CAUSEWAY_DECL void mesh_builder::reject(const conversation_ptr& who, const error& why) {
  turned_away_.say(clock_.now(), "refused " + who->remote() + ": " + why.message);
  who->refuse(why);
}

CAUSEWAY_DECL std::optional<error> mesh_builder::check_run(std::uint64_t run_id, std::uint64_t model) const {
  if (run_id != run_id_ && run_id != 0) {
    return wrong_run();
  }
  if (model != options_->model_hash && model != 0 && options_->model_hash != 0) {
    return fail(errc::wrong_model, "",
                "this run trains another model or with other options; start with the same options as the host");
  }
  return std::nullopt;
}

CAUSEWAY_DECL bool mesh_builder::link_complete(const link_sockets& link) {
  return !link.empty() && std::all_of(link.begin(), link.end(), has_value);
}

CAUSEWAY_DECL bool mesh_builder::make_room() {
  const auto goes = strangers_.expel();
  if (goes) send_away(*goes);
  return goes.has_value();
}

CAUSEWAY_DECL void mesh_builder::send_away(const conversation_ptr& who) {
  reject(who, fail(errc::too_large, "", "too many connections at once; try again"));
}

CAUSEWAY_DECL std::shared_ptr<accepting> mesh_builder::make_accepting(std::unique_ptr<tcp::acceptor> acceptor) {
  return std::make_shared<accepting>(
      *io_, std::move(acceptor), [this](tcp::socket socket) { meet(std::move(socket)); },
      [this](const std::string& why) {
        turned_away_.say(clock_.now(), "cannot accept connections for now: " + why);
        make_room();
      });
}

CAUSEWAY_DECL void mesh_builder::meet(tcp::socket socket) {
  std::error_code failure;
  const std::string source = socket.remote_endpoint(failure).address().to_string();
  const bool scarce = spare_descriptors(socket.native_handle()) == 0;
  const auto who = std::make_shared<conversation>(std::move(socket));
  if (scarce && !make_room()) {
    return reject(who, fail(errc::too_large, "", "this peer has as many connections as it may have; raise its ulimit -n"));
  }
  if (const auto goes = strangers_.enter(who, source)) send_away(*goes);
  who->on_end([this, who](const error& why) {
    strangers_.leave(who);
    turned_away_.say(clock_.now(), "dropped a connection during its handshake: " + why.text());
  });
  who->next(handshake_bytes, handshake_patience, [this, who](const frame_header& h, std::span<const std::byte> body) {
    strangers_.leave(who);
    if (h.kind == frame_kind::ask) return informant_.serve(who, run_id_, body);
    if (h.kind == frame_kind::link) return take_link(who, h, body);
    if (h.kind == frame_kind::hello && hello_) return hello_(who, h, body);
    reject(who,
           h.kind == frame_kind::hello
               ? fail(errc::protocol, "", "this address is a peer, not the host of the run; join at the host's address")
               : fail(errc::protocol, "",
                      "this address serves a run with a fixed number of peers; join it with the fault policy fail_stop"));
  });
}

CAUSEWAY_DECL void mesh_builder::dial_peer(peer_index peer, std::size_t stream, bool again) {
  const auto connected = [this, peer, stream](const conversation_ptr& who) {
    talking_.insert(who);
    if (stream == 0) start_link(peer, who);
    byte_writer body;
    body.put(token_).put(options_->model_hash).put(peer);
    body.put(static_cast<std::uint32_t>(stream)).put(static_cast<std::uint32_t>(sockets_[peer].size()));
    body.put(static_cast<std::uint32_t>(chunk_for(options_->transport.chunk_bytes, sockets_[peer].size())));
    who->on_end([this, who, peer, stream](const error&) {
      talking_.erase(who);
      dial_peer(peer, stream, true);  // it may have been an earlier program about to end
    });
    who->say(frame_kind::link, run_id_, self_, body.bytes());
    who->next(handshake_bytes, handshake_patience, [this, who, peer, stream](const frame_header& h, auto answer) {
      talking_.erase(who);
      if (h.kind == frame_kind::link_ok) return keep(peer, stream, who);
      who->stop();
      const error why = h.kind == frame_kind::refused ? read_refusal(addresses_[peer].text(), answer)
                                                      : fail(errc::protocol, peer_name(peer), "it answered out of turn");
      if (why.code == errc::not_found) return dial_peer(peer, stream, true);  // its table is older than ours, or newer
      fail_with(why);
    });
  };
  dial(addresses_[peer], connected, again);
}

CAUSEWAY_DECL void mesh_builder::start_link(peer_index peer, const conversation_ptr& who) {
  if (!sockets_[peer].empty()) return;
  std::size_t streams = options_->streams_per_link != 0 ? options_->streams_per_link : streams_;
  const auto one_is_enough = [&] {
    return is_loopback(who->socket()) || (options_->transport.bbr && kernel_allows_bbr(*io_));
  };
  if (streams == 0) streams = one_is_enough() ? 1 : 16;
  const std::size_t spare = spare_descriptors(who->descriptor());
  sockets_[peer].resize(affordable_streams(std::min(streams, most_streams), spare));
  for (std::size_t stream = 1; stream < sockets_[peer].size(); ++stream) dial_peer(peer, stream);
}

CAUSEWAY_DECL void mesh_builder::take_link(const conversation_ptr& who, const frame_header& h,
                                           std::span<const std::byte> body) {
  if (addresses_.empty()) {  // it got the table before we did
    if (auto wrong = check_run(h.run_id, 0)) return reject(who, *wrong);
    if (early_.size() < most_strangers) early_.push_back({who, h, {body.begin(), body.end()}});
    return;
  }
  byte_reader in{body};
  const auto token = in.get<std::uint64_t>();
  const auto model = in.get<std::uint64_t>();
  const auto me = in.get<std::uint32_t>();
  const auto stream = in.get<std::uint32_t>();
  const auto streams = in.get<std::uint32_t>();
  const auto chunk = in.get<std::uint32_t>();
  if (auto outcome = in.finish("link request"); !outcome) return reject(who, outcome.error());
  if (auto wrong = check_run(h.run_id, model)) return reject(who, *wrong);
  if (token != token_) return reject(who, fail(errc::not_found, "", "it belongs to another gathering of peers"));
  if (me != self_ || h.sender <= self_ || h.sender >= sockets_.size()) {
    return reject(who, fail(errc::protocol, "", "it does not belong to this gathering of peers; start it again"));
  }
  if (streams == 0 || streams > most_streams || stream >= streams ||
      chunk != chunk_for(options_->transport.chunk_bytes, streams)) {
    return reject(
        who, fail(errc::invalid_argument, "", "both sides of a link need the same number of streams and chunk length"));
  }
  auto& link = sockets_[h.sender];
  if (link.empty()) link.resize(streams);
  if (link.size() != streams || link[stream].has_value()) {
    return reject(who, fail(errc::protocol, "", "somebody connected in the name of this peer already"));
  }
  talking_.insert(who);
  who->say(frame_kind::link_ok, run_id_, self_, {}, [this, who, sender = h.sender, stream] {
    talking_.erase(who);
    if (!sockets_[sender][stream]) keep(sender, stream, who);
  });
}

CAUSEWAY_DECL void mesh_builder::keep(peer_index peer, std::size_t stream, const conversation_ptr& who) {
  sockets_[peer][stream] = who->release();
  tell_if_complete();
}

CAUSEWAY_DECL void mesh_builder::tell_if_complete() {
  if (!completed_ || !complete()) return;
  std::exchange(completed_, {})();
}

CAUSEWAY_DECL void mesh_builder::shut_down() {
  if (over_) return;
  over_ = true;
  accepting_->stop();
  for (const auto& d : dialers_) d->stop();
  while (const auto who = strangers_.expel()) (*who)->stop();
  for (const auto& who : std::exchange(talking_, {})) who->stop();
  informant_.stop();
  for (const auto& e : early_) e.who->stop();
  early_.clear();
  hello_ = {};
  tick_ = {};
  completed_ = {};
  io_->restart();
  io_->poll();
  io_->restart();
  accepting_.reset();
  dialers_.clear();
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_MESH_IPP
