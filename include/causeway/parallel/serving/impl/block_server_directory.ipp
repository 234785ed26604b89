// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SERVING_IMPL_BLOCK_SERVER_DIRECTORY_IPP
#define CAUSEWAY_PARALLEL_SERVING_IMPL_BLOCK_SERVER_DIRECTORY_IPP

#include <causeway/parallel/serving/block_server_directory.hpp>

#include <algorithm>
#include <variant>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL block_server_directory::block_server_directory(std::shared_ptr<net::fabric> fabric, std::uint64_t run,
                                                             std::int64_t layers, block_client_options options,
                                                             log_sink log)
    : fabric_{std::move(fabric)},
      options_{std::move(options)},
      run_{run},
      log_{std::move(log)},
      directory_{layers, options_.directory},
      addresses_{options_.dial.begin(), options_.dial.end()} {}

CAUSEWAY_DECL void block_server_directory::hear(net::peer_index, const block_wire::request&) {}

CAUSEWAY_DECL void block_server_directory::hear(net::peer_index link, const block_wire::probe& p) {
  post(link, block_wire::echo{p.mark});
}

CAUSEWAY_DECL result<bool> block_server_directory::wait_for_blocks(time_point deadline) {
  return fabric_->block(
      [this] {
        return !directory_.route({0, directory_.layers()}, {}, fabric_->now()).empty();
      },
      deadline);
}

CAUSEWAY_DECL stage::span_directory block_server_directory::directory() {
  stage::span_directory now;
  fabric_->locked([&] { now = directory_; });
  return now;
}

CAUSEWAY_DECL void block_server_directory::listen() {
  fabric_->attach(this);
  fabric_->locked([this] { on_wake(); });
}

CAUSEWAY_DECL std::optional<net::peer_index> block_server_directory::link_to(net::peer_id server) const {
  const auto found = std::find_if(links_.begin(), links_.end(), [&](const auto& l) { return l.second == server; });
  if (found == links_.end()) return std::nullopt;
  return found->first;
}

CAUSEWAY_DECL error block_server_directory::nobody_there(time_point now) const {
  const std::int64_t missing = directory_.first_missing({0, directory_.layers()}, now);
  if (missing == directory_.layers()) {
    return fail(errc::timeout, "block_client",
                "every block is served, but by nobody who takes a request of this size: fewer rows at once (most_rows), "
                "fewer prompts or a lower rank of adapters would do");
  }
  return fail(errc::timeout, "block_client",
              "block " + std::to_string(missing) + " of " + std::to_string(directory_.layers()) +
                  " is served by nobody who answers; start a server that holds it");
}

CAUSEWAY_INLINE void block_server_directory::on_up(net::peer_index link, net::peer_id id, const std::string&) {
  links_[link] = id;
  post(link, block_wire::probe{mark()});
}

CAUSEWAY_INLINE void block_server_directory::on_down(net::peer_index link, const error&) {
  down_.insert(link);
  news_ = true;
  const auto found = links_.find(link);
  if (found == links_.end()) return;
  directory_.gone(found->second);
  links_.erase(found);
}

CAUSEWAY_INLINE void block_server_directory::on_control(net::peer_index link, std::span<const std::byte> bytes) {
  auto m = block_wire::decode(run_, bytes);
  if (!m) return fabric_->close(link, m.error().message);
  std::visit([&](auto& what) { hear(link, what); }, *m);
}

CAUSEWAY_INLINE void block_server_directory::on_wake() {
  for (const std::string& a : addresses_) fabric_->dial(a);
  for (const auto& [link, id] : links_) post(link, block_wire::probe{mark()});
  fabric_->wake_at(fabric_->now() + options_.heartbeat);
}

CAUSEWAY_DECL void block_server_directory::hear(net::peer_index link, const block_wire::announcement& a) {
  if (a.offer.blocks.last > directory_.layers()) return fabric_->close(link, "blocks that the model does not have");
  directory_.announced(links_[link], a.offer, fabric_->now() + std::chrono::milliseconds{a.milliseconds});
  news_ = true;
}

CAUSEWAY_DECL void block_server_directory::hear(net::peer_index, const block_wire::addresses& a) {
  for (const std::string& one : a.list) {
    if (addresses_.size() < block_wire::most_addresses && addresses_.insert(one).second) fabric_->dial(one);
  }
}

CAUSEWAY_DECL void block_server_directory::hear(net::peer_index link, const block_wire::echo& e) {
  const std::uint64_t now = mark();
  if (e.mark <= now) directory_.probed(links_[link], static_cast<double>(now - e.mark) * 1e-9);
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SERVING_IMPL_BLOCK_SERVER_DIRECTORY_IPP
