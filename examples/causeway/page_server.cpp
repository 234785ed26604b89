// SPDX-License-Identifier: Apache-2.0
#include "page_server.hpp"

#include <causeway/net/endpoint.hpp>

#include <asio.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>

#include "http_request.hpp"
#include "page_text.hpp"
#include "prometheus.hpp"
#include "run_records.hpp"

namespace app {
namespace {

using causeway::errc;
using causeway::fail;
using namespace std::chrono_literals;
using asio::ip::tcp;

constexpr std::size_t most_connections = 32;
constexpr auto patience = 10s;      ///< for a whole request, and again for its answer to be taken
constexpr auto look_every = 200ms;  ///< at the files, however many ask

struct answer {
  int status = 200;
  const char* type = "text/plain; charset=utf-8";
  std::string body{};
};

const char* reason(int status) {
  switch (status) {
    case 200: return "OK";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 421: return "Misdirected Request";
    case 431: return "Request Header Fields Too Large";
    case 505: return "HTTP Version Not Supported";
    default: return "Bad Request";
  }
}

// The page needs nothing from elsewhere, and nothing may be made of it elsewhere.
std::string to_http(const answer& a, bool head) {
  std::string text = "HTTP/1.1 " + std::to_string(a.status) + " " + reason(a.status) + "\r\nContent-Type: " + a.type +
                     "\r\nContent-Length: " + std::to_string(a.body.size()) +
                     "\r\nConnection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                     "Referrer-Policy: no-referrer\r\nX-Frame-Options: DENY\r\n"
                     "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                     "connect-src 'self'; img-src data:\r\n";
  if (a.status == 405) text += "Allow: GET, HEAD\r\n";
  text += "\r\n";
  return head ? text : text + a.body;
}

/// Where to listen.
struct place {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
};

causeway::result<place> parse_place(const std::string& where) {
  const bool port_only = where.find_first_not_of("0123456789") == std::string::npos;
  auto parsed = causeway::net::parse_endpoint(port_only ? "127.0.0.1:" + where : where);
  if (!parsed) return fail(errc::invalid_argument, "watch.page", "'" + where + "'; use PORT or HOST:PORT");
  return place{parsed->host, parsed->port};
}

}  // namespace

class page_server::server {
 public:
  server(tcp::acceptor acceptor, std::unique_ptr<asio::io_context> io, place at, const std::string& folder)
      : io_{std::move(io)}, acceptor_{std::move(acceptor)}, place_{std::move(at)}, records_{folder} {}
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  ~server() {
    io_->stop();
    if (thread_.joinable()) thread_.join();
  }

  void start() {
    accept();
    thread_ = std::thread{[this] { run(); }};
  }

  [[nodiscard]] std::string url() const {
    const bool brackets = place_.host.find(':') != std::string::npos;
    return "http://" + (brackets ? "[" + place_.host + "]" : place_.host) + ":" + std::to_string(place_.port) + "/";
  }

 private:
  /// An answer that cannot be made, for want of memory say, costs its connection, and not the run.
  void run() {
    for (;;) {
      try {
        io_->run();
        return;
      } catch (const std::exception&) {
      }
    }
  }

  /// One connection answers one request.
  struct connection {
    explicit connection(tcp::socket s) : socket{std::move(s)}, timer{socket.get_executor()} {}
    tcp::socket socket;
    asio::steady_timer timer;
    std::string request;
    std::string reply;
  };
  using handle = std::shared_ptr<connection>;

  void accept() {
    acceptor_.async_accept([this](const asio::error_code& failure, tcp::socket socket) {
      if (!failure && open_ < most_connections) serve(std::move(socket));  // else it is closed here
      if (!failure) return accept();
      if (failure == asio::error::operation_aborted) return;
      retry_.expires_after(look_every);  // out of files, say
      retry_.async_wait([this](const asio::error_code& stopped) {
        if (!stopped) accept();
      });
    });
  }

  void serve(tcp::socket socket) {
    ++open_;
    const handle c{new connection{std::move(socket)}, [this](connection* gone) {
                     --open_;
                     delete gone;
                   }};
    limit(c);
    asio::async_read_until(c->socket, asio::dynamic_buffer(c->request, longest_request), "\r\n\r\n",
                           [this, c](const asio::error_code& failure, std::size_t length) {
                             if (!failure) return reply(c, read_request({c->request.data(), length}));
                             if (failure == asio::error::not_found) {
                               return reply(c, http_refusal{431, "the request is too long"});
                             }
                             c->timer.cancel();
                           });
  }

  void limit(const handle& c) {
    c->timer.expires_after(patience);
    c->timer.async_wait([c](const asio::error_code& stopped) {
      asio::error_code ignored;
      if (!stopped) c->socket.close(ignored);
    });
  }

  void reply(const handle& c, const std::variant<http_request, http_refusal>& asked) {
    const auto* const r = std::get_if<http_request>(&asked);
    c->reply = r != nullptr ? to_http(answer_to(*r), r->head) : refused(std::get<http_refusal>(asked));
    limit(c);
    asio::async_write(c->socket, asio::buffer(c->reply), [c](const asio::error_code&, std::size_t) {
      asio::error_code ignored;
      c->socket.shutdown(tcp::socket::shutdown_both, ignored);
      c->timer.cancel();
    });
  }

  static std::string refused(const http_refusal& r) { return to_http({.status = r.status, .body = r.why + "\n"}, false); }

  answer answer_to(const http_request& r) {
    if (!is_own_host(r.host, place_.host))
      return {
          .status = 421,
          .body =
              "the page is served by address, against pages that would read it under a name of theirs: use the IP address "
              "of the machine, or start it with --page NAME:PORT\n"};
    if (r.path == "/") return {.type = "text/html; charset=utf-8", .body = page_text(std::nullopt)};
    if (r.path == "/healthz") return {.body = "ok\n"};
    look();
    if (r.path == "/metrics") return {.type = "text/plain; version=0.0.4; charset=utf-8", .body = to_prometheus(records_)};
    if (r.path != "/state.json") return {.status = 404, .body = "there is /, /state.json, /metrics and /healthz\n"};
    const auto value = [&](const char* name) {
      const auto at = r.query.find(name);
      return at == r.query.end() ? 0 : at->second;
    };
    return {.type = "application/json", .body = records_.state(value("generation"), value("since"))};
  }

  void look() {
    const auto now = std::chrono::steady_clock::now();
    if (looked_ && now - *looked_ < look_every) return;
    looked_ = now;
    records_.refresh();
  }

  std::size_t open_ = 0;  // before the context, which has the last connections
  std::unique_ptr<asio::io_context> io_;
  tcp::acceptor acceptor_;
  asio::steady_timer retry_{*io_};
  place place_;
  run_records records_;
  std::optional<std::chrono::steady_clock::time_point> looked_;
  std::thread thread_;
};

causeway::result<void> check_page_place(const std::string& where) {
  if (where.empty()) return {};
  CAUSEWAY_TRY(parse_place(where));
  return {};
}

page_server::page_server() = default;
page_server::page_server(page_server&&) noexcept = default;
page_server::~page_server() = default;

std::string page_server::url() const { return server_ ? server_->url() : std::string{}; }

causeway::result<page_server> page_server::open(const std::string& where, const std::string& run_folder) {
  page_server opened;
  if (where.empty()) return opened;
  CAUSEWAY_ASSIGN(place at, parse_place(where));
  auto io = std::make_unique<asio::io_context>(1);
  asio::error_code failure;
  const auto found = tcp::resolver{*io}.resolve(at.host, std::to_string(at.port), tcp::resolver::passive, failure);
  tcp::acceptor acceptor{*io};
  if (!failure) {
    const tcp::endpoint end = found.begin()->endpoint();
    acceptor.open(end.protocol(), failure);
    if (!failure) acceptor.set_option(tcp::acceptor::reuse_address{true}, failure);
    if (!failure) acceptor.bind(end, failure);
    if (!failure) acceptor.listen(asio::socket_base::max_listen_connections, failure);
  }
  if (failure) {
    return fail(errc::invalid_argument, "watch.page",
                "nothing can listen at " + at.host + ":" + std::to_string(at.port) + ": " + failure.message() +
                    "; give another --page, or 0 for any port that is free");
  }
  at.port = acceptor.local_endpoint(failure).port();
  opened.server_ = std::make_unique<server>(std::move(acceptor), std::move(io), std::move(at), run_folder);
  opened.server_->start();
  return opened;
}

}  // namespace app
