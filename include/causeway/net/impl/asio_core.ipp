// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ASIO_CORE_IPP
#define CAUSEWAY_NET_IMPL_ASIO_CORE_IPP

#include <causeway/net/asio_core.hpp>

#include <algorithm>
#include <mutex>
#include <new>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_LAZY basic_fabric_core<Whole>::basic_fabric_core(listener at, fabric_options options)
    : engine{std::move(at.port->io), options.run_id, static_cast<std::uint32_t>(options.id), options.transport},
      options_{std::move(options)},
      incarnation_{make_incarnation()},
      peers_{options_.id, incarnation_, options_.most_peers},
      handshakes_{loop_.io(), shared_.mutex, std::move(at.port->acceptor), handshake_settings(options_), *this},
      wake_timer_{loop_.io()} {
  shared_.owner = this;
  set_address(at.address());
  const std::lock_guard lock{shared_.mutex};
  run();
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::attach(fabric_events* events) {
  std::unique_lock lock{shared_.mutex};
  events_ = events;
  if (events == nullptr) {
    queue_.clear();
    lock.unlock();
    return aside_.wait_idle();
  }
  if (!std::exchange(opened_, true)) in_loop([this] { handshakes_.open(); });
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::dial(const std::string& to) {
  CAUSEWAY_EXPECT(is_inside());
  in_loop([this, to] {
    if (!stands(to)) handshakes_.dial(to);
  });
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::close(peer_index peer, const std::string& why) {
  CAUSEWAY_EXPECT(is_inside());
  if (is_alive(peer)) links_[peer]->dismiss(fail(errc::peer_lost, links_[peer]->name(), why));
}

CAUSEWAY_LAZY bool basic_fabric_core<Whole>::is_up(peer_index peer) const {
  CAUSEWAY_EXPECT(is_inside());
  return is_alive(peer) && peers_[peer].told;
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::post(peer_index peer, std::vector<std::byte> message, bool bulk) {
  CAUSEWAY_EXPECT(message.size() <= max_post_bytes);
  if (is_up(peer)) links_[peer]->post(std::move(message), bulk);
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::wake_at(time_point when) {
  CAUSEWAY_EXPECT(is_inside());
  ++wake_round_;
  wake_timer_.cancel();
  wake_time_ = when;
  if (when != no_deadline) arm_wake();
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::cancel_before(std::uint32_t epoch) {
  CAUSEWAY_EXPECT(is_inside());
  end_epochs_before(epoch);
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::aside(std::function<void()> work, std::function<void()> then) {
  CAUSEWAY_EXPECT(is_inside());
  aside_.push([this, work = std::move(work), then = std::move(then)] {
    work();
    const std::lock_guard lock{shared_.mutex};
    if (!closed_) tell({{}, [then](fabric_events&) { then(); }});
  });
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::locked(const std::function<void()>& what) {
  const std::lock_guard lock{shared_.mutex};
  const inside_mark mark{*this};
  what();
  loop_.wake();
}

CAUSEWAY_LAZY bool basic_fabric_core<Whole>::done(operation handle) const {
  return is_inside() ? shared_.operations.done(handle) : engine::done(handle);
}

CAUSEWAY_LAZY result<bool> basic_fabric_core<Whole>::block(const std::function<bool()>& done, time_point deadline) {
  std::unique_lock lock{shared_.mutex};
  bool is_done = false;
  loop_.drive(lock, deadline, [&] {
    const inside_mark mark{*this};
    is_done = done();
    return is_done || interrupted_ || closed_;
  });
  if (!is_done && (interrupted_ || closed_)) return fail(errc::cancelled, "fabric", "stopped on request");
  return is_done;
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::close() {
  attach(nullptr);
  std::unique_lock lock{shared_.mutex};
  if (closed_) return;
  queue_.clear();
  handshakes_.shut();
  wake_timer_.cancel();
  shut_down(lock);
  lock.lock();
  handshakes_.lock_up();
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::in_loop(std::function<void()> what) {
  asio::post(loop_.io(), std::function<void()>{[this, call = std::move(what)] {
               const std::lock_guard lock{shared_.mutex};
               if (!closed_) call();
             }});
}

CAUSEWAY_LAZY std::uint64_t basic_fabric_core<Whole>::make_incarnation() const {
  const auto now = shared_.clock.now().since_start.count();
  const std::uint64_t here = reinterpret_cast<std::uintptr_t>(this);
  return hasher{options_.id}.add_value(now).add_value(here).finish() | 1U;
}

CAUSEWAY_LAZY handshake_options basic_fabric_core<Whole>::handshake_settings(const fabric_options& options) {
  handshake_options settings = options.handshake;
  settings.run_id = options.run_id;
  settings.log = options.transport.log;
  return settings;
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::set_address(const endpoint& bound) {
  const auto announced = parse_endpoint(options_.announce);
  if (announced && announced->port != 0) {
    announced_ = *announced;
  } else {
    const bool anywhere = bound.host == "0.0.0.0" || bound.host == "::";
    announced_ = {!options_.announce.empty() ? options_.announce : anywhere ? std::string{} : bound.host, bound.port};
  }
  std::error_code failure;
  const std::string host = announced_.host.empty() ? asio::ip::host_name(failure) : announced_.host;
  address_ = endpoint{host, announced_.port}.text();
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::tell(event what) {
  if (events_ == nullptr) return;
  queue_.push_back(std::move(what));
  if (std::exchange(telling_, true)) return;
  in_loop([this] { tell_all(); });
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::tell_all() {
  const inside_mark mark{*this};
  while (!queue_.empty() && events_ != nullptr) {
    const event what = std::move(queue_.front());
    queue_.pop_front();
    try {
      what.tell(*events_);
    } catch (const std::bad_alloc&) {
      run_out_of_memory(what.about);
    }
  }
  telling_ = false;
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::run_out_of_memory(std::optional<peer_index> about) {
  if (!about) {
    wake_at(shared_.clock.now() + shared_.options.heartbeat);
  } else if (is_alive(*about)) {
    links_[*about]->lose(out_of_memory(links_[*about]->name()));
  }
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::hear_lost(peer_index peer, const error& why) {
  peers_[peer].told = false;  // what is posted before the owner hears of it is lost, as it would be a moment earlier
  tell({peer, [this, peer, why](fabric_events& to) {
          peers_[peer].told = false;
          to.on_down(peer, why);
        }});
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::hear_control(peer_index peer, control_message message) {
  tell({peer, [peer, shared = std::make_shared<control_message>(std::move(message))](fabric_events& to) {
          to.on_control(peer, shared->view());
        }});
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::unreachable(const std::string& where, const error& why) {
  tell({{}, [where, why](fabric_events& to) { to.on_unreachable(where, why); }});
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::arm_wake() {
  wake_timer_.expires_at(to_standard(wake_time_, shared_.clock.now()));
  wake_timer_.async_wait(completion{[this, round = wake_round_](std::error_code failure) {
    const std::lock_guard lock{shared_.mutex};
    if (failure || closed_ || round != wake_round_) return;
    if (shared_.clock.now() < wake_time_) return arm_wake();
    tell({{}, [this, round](fabric_events& to) {
            if (round == wake_round_) to.on_wake();
          }});
  }});
}

CAUSEWAY_LAZY bool basic_fabric_core<Whole>::stands(const std::string& where) const {
  for (peer_index peer = 0; peer < peers_.size(); ++peer) {
    const roster::place& p = peers_[peer];
    if (is_alive(peer) && (p.address == where || p.aliases.contains(where))) return true;
  }
  return false;
}

CAUSEWAY_LAZY introduction basic_fabric_core<Whole>::introduce(const tcp::socket& to, std::size_t spare) {
  std::size_t streams = options_.streams_per_link;
  if (streams == 0) streams = is_loopback(to) || kernel_has_bbr() ? 1 : 16;
  streams = affordable_streams(std::min<std::size_t>(streams, most_data_streams), spare);
  introduction us;
  us.id = options_.id;
  us.incarnation = incarnation_;
  us.streams = static_cast<std::uint32_t>(streams);
  us.chunk = static_cast<std::uint32_t>(chunk_for(options_.transport.chunk_bytes, streams));
  us.host = announced_.host;
  us.port = announced_.port;
  return us;
}

CAUSEWAY_LAZY bool basic_fabric_core<Whole>::kernel_has_bbr() {
  if (!has_bbr_) has_bbr_ = options_.transport.bbr && kernel_allows_bbr(loop_.io());
  return *has_bbr_;
}

CAUSEWAY_LAZY std::optional<error> basic_fabric_core<Whole>::objection(const introduction& them) {
  return peers_.objection(them, [this](peer_index peer) { return is_alive(peer); });
}

CAUSEWAY_LAZY bool basic_fabric_core<Whole>::is_connected(peer_id id, std::uint64_t incarnation) {
  const auto peer = peers_.find(id);
  return is_alive(peer) && peers_[*peer].incarnation == incarnation;
}

CAUSEWAY_LAZY std::uint64_t basic_fabric_core<Whole>::choose(const introduction& them, const wish& theirs) {
  return peers_.choose(them, theirs, is_alive(peers_.find(them.id)));
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::take(const introduction& us, const introduction& them, std::uint64_t serial,
                                                  const std::string& dialled, tcp::socket socket) {
  if (!peers_.claim(them.id, serial)) return;
  const auto place = peers_.place_for(them.id, [this](peer_index p) { return is_alive(p); });
  if (!place) return;  // others were quicker; it dials again
  const peer_index peer = *place;
  if (is_alive(peer)) {
    const bool restarted = peers_[peer].incarnation != them.incarnation;
    links_[peer]->lose(
        fail(errc::peer_lost, name_of(them.id), restarted ? "its program was started anew" : "it made a new connection"));
  }
  peers_.connected(peer, us, them, serial, dialled);
  std::error_code failure;
  const tcp::endpoint remote = socket.remote_endpoint(failure);
  open_link(peer, us, them, std::move(socket));
  if (!dialled.empty()) dial_streams(peer, remote);
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::open_link(peer_index peer, const introduction& us, const introduction& them,
                                                       tcp::socket socket) {
  link_identity who{.peer = peer,
                    .sender = static_cast<std::uint32_t>(them.id),
                    .name = name_of(them.id),
                    .chunk = us.chunk,
                    .their_chunk = them.chunk,
                    .control_apart = true};
  std::vector<tcp::socket> sockets;
  sockets.push_back(std::move(socket));
  auto made = std::make_unique<link>(shared_, std::move(who), std::move(sockets));
  for (const std::uint32_t epoch : past_.ends()) made->refuse_before(epoch);
  if (peer == links_.size()) {
    links_.push_back(std::move(made));
  } else {
    clear_graves();
    graves_.push_back(std::exchange(links_[peer], std::move(made)));
  }
  tell({peer, [this, peer, id = them.id, where = peers_[peer].address](fabric_events& to) {
          peers_[peer].told = true;
          to.on_up(peer, id, where);
        }});
  links_[peer]->start_reading();
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::dial_streams(peer_index peer, const tcp::endpoint& remote) {
  const roster::place& p = peers_[peer];
  for (std::uint32_t index = 0; index < p.streams; ++index) {
    handshakes_.dial_stream(remote, {{p.id, p.incarnation, p.serial}, index}, {options_.id, incarnation_, p.serial});
  }
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::take_stream(const stream_request& which, tcp::socket socket) {
  const auto peer = peers_.lacking(which);
  if (!is_alive(peer)) return;
  peers_[*peer].streams_seen |= std::uint64_t{1} << which.index;
  links_[*peer]->add_stream(std::move(socket));
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::lose_stream(const stream_request& which, const error& why) {
  const auto peer = peers_.lacking(which);
  if (!is_alive(peer) || peers_[*peer].streams_seen != 0) return;  // if others stand, they carry its share
  links_[*peer]->lose(fail(errc::peer_lost, name_of(which.key.id), "no connection for data: " + why.text()));
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::tick(duration since) {
  for (const auto& l : graves_) l->tick(since);
  clear_graves();
  handshakes_.tick();
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::clear_graves() {
  std::erase_if(graves_, [](const auto& l) { return l->at_rest(); });
}

#ifdef CAUSEWAY_COMPILED
template class basic_fabric_core<void>;
#endif

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_CORE_IPP
