// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_THREADED_SERVER_HPP
#define CAUSEWAY_TESTS_SUPPORT_THREADED_SERVER_HPP

// Whoever serves others, over real sockets on a thread of its own.

#include <causeway/net/asio_fabric.hpp>

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace support {

inline std::shared_ptr<causeway::net::fabric> tcp_fabric(causeway::net::peer_id id) {
  causeway::net::fabric_options o;
  o.run_id = 77;
  o.id = id;
  auto opened = causeway::net::open_fabric(causeway::net::endpoint{}, o);
  if (!opened) throw std::runtime_error{opened.error().text()};
  return *std::move(opened);
}

/// Serves until it is destroyed. A Server is made of a fabric and `arguments`.
template <class Server>
class threaded_server {
 public:
  template <class... Arguments>
  explicit threaded_server(causeway::net::peer_id id, Arguments&&... arguments)
      : fabric_{tcp_fabric(id)}, server_{fabric_, std::forward<Arguments>(arguments)...} {
    if (const auto open = server_.open(); !open) throw std::runtime_error{open.error().text()};
    thread_ = std::thread{[this] { (void)server_.serve([this] { return stopped_; }); }};
  }
  threaded_server(const threaded_server&) = delete;
  threaded_server& operator=(const threaded_server&) = delete;
  ~threaded_server() {
    fabric_->locked([this] {
      stopped_ = true;
      fabric_->wake_at(fabric_->now());
    });
    thread_.join();
  }
  [[nodiscard]] std::string address() const { return fabric_->address(); }

 private:
  std::shared_ptr<causeway::net::fabric> fabric_;
  Server server_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_THREADED_SERVER_HPP
