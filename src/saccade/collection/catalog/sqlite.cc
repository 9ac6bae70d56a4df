#include "saccade/collection/catalog/sqlite.h"

#include <cerrno>
#include <sqlite3.h>
#include <system_error>
#include <unistd.h>

#include "saccade/collection/catalog/sql_text.h"
#include "saccade/collection/catalog/words/word_functions.h"

namespace saccade {
namespace {

ErrorCode code_of(int result) {
  switch (result & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
    case SQLITE_TOOBIG:
      return ErrorCode::kBadData;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_PROTOCOL:
      return ErrorCode::kIo;
    case SQLITE_CONSTRAINT:
      return ErrorCode::kUsage;
    default:
      return ErrorCode::kInternal;
  }
}

tl::unexpected<Error> failure(sqlite3* database, int result) {
  const char* message = database != nullptr ? sqlite3_errmsg(database) : sqlite3_errstr(result);
  // A full disk is "disk I/O error" to SQLite, which reads like a broken one.
  if (database != nullptr && (result & 0xff) == SQLITE_IOERR) {
    const int cause = sqlite3_system_errno(database);
    if (cause == ENOSPC || cause == EDQUOT || cause == EFBIG) {
      return fail(code_of(result), "{}: {} (SQLite {})", message, std::generic_category().message(cause),
                  result);
    }
  }
  return fail(code_of(result), "{} (SQLite {})", message, result);
}

// "file:" name of a path, with what a URI gives meaning to escaped.
std::string uri_of(const std::filesystem::path& path, std::string_view query) {
  std::string uri = "file:";
  for (const char c : std::filesystem::absolute(path).string()) {
    if (c == '%' || c == '?' || c == '#') {
      uri += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    } else {
      uri += c;
    }
  }
  uri += query;
  return uri;
}

}  // namespace

Statement& Statement::operator=(Statement&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(bound_, other.bound_);
  std::swap(bind_error_, other.bind_error_);
  return *this;
}

Statement::~Statement() {
  sqlite3_finalize(handle_);
}

Statement& Statement::bind(int64_t value) {
  const int result = sqlite3_bind_int64(handle_, ++bound_, value);
  if (result != SQLITE_OK) bind_error_ = result;
  return *this;
}

Statement& Statement::bind(double value) {
  const int result = sqlite3_bind_double(handle_, ++bound_, value);
  if (result != SQLITE_OK) bind_error_ = result;
  return *this;
}

Statement& Statement::bind(std::string_view text) {
  const int result = sqlite3_bind_text64(handle_, ++bound_, text.empty() ? "" : text.data(), text.size(),
                                         SQLITE_TRANSIENT, SQLITE_UTF8);
  if (result != SQLITE_OK) bind_error_ = result;
  return *this;
}

Statement& Statement::bind(const SqlValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return bind(*number);
  if (const auto* number = std::get_if<double>(&value)) return bind(*number);
  return bind(std::string_view(std::get<std::string>(value)));
}

Statement& Statement::bind_null() {
  const int result = sqlite3_bind_null(handle_, ++bound_);
  if (result != SQLITE_OK) bind_error_ = result;
  return *this;
}

Statement& Statement::bind_pointer(void* pointer, const char* type) {
  const int result = sqlite3_bind_pointer(handle_, ++bound_, pointer, type, nullptr);
  if (result != SQLITE_OK) bind_error_ = result;
  return *this;
}

Result<bool> Statement::step() {
  const int result = bind_error_ != SQLITE_OK ? bind_error_ : sqlite3_step(handle_);
  if (result == SQLITE_ROW) return true;
  if (result == SQLITE_DONE) {
    reset();
    return false;
  }
  auto error = failure(bind_error_ != SQLITE_OK ? nullptr : sqlite3_db_handle(handle_), result);
  reset();
  return error;
}

Status Statement::run() {
  SACCADE_ASSIGN(const bool row, step());
  if (!row) return {};
  reset();
  return fail(ErrorCode::kInternal, "a row from a statement that gives none: {}", sqlite3_sql(handle_));
}

void Statement::reset() {
  sqlite3_reset(handle_);
  bound_ = 0;
  bind_error_ = SQLITE_OK;
}

int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(handle_, column);
}

std::string Statement::text(int column) const {
  const unsigned char* text = sqlite3_column_text(handle_, column);
  if (text == nullptr) return {};
  return {reinterpret_cast<const char*>(text), static_cast<size_t>(sqlite3_column_bytes(handle_, column))};
}

double Statement::real(int column) const {
  return sqlite3_column_double(handle_, column);
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(handle_, column) == SQLITE_NULL;
}

std::string_view Statement::blob(int column) const {
  const void* bytes = sqlite3_column_blob(handle_, column);
  if (bytes == nullptr) return {};
  return {static_cast<const char*>(bytes), static_cast<size_t>(sqlite3_column_bytes(handle_, column))};
}

Database& Database::operator=(Database&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(kept_, other.kept_);
  return *this;
}

Database::~Database() {
  kept_.clear();
  sqlite3_close_v2(handle_);
}

Result<Database> Database::open_as(const std::string& name, int flags, Mode mode) {
  sqlite3* handle = nullptr;
  const int opened =
      sqlite3_open_v2(name.c_str(), &handle, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, nullptr);
  Database database(handle);
  if (opened != SQLITE_OK) return failure(handle, opened);
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, 5000);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, 64 << 20);
  sqlite3_limit(handle, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000);
  SACCADE_TRY(add_text_functions(handle));
  SACCADE_TRY(database.execute("PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0"));
  if (mode == Mode::kRead) SACCADE_TRY(database.execute("PRAGMA query_only = ON"));
  // SQLite opens lazily: the first read finds out what is wrong with the file.
  SACCADE_TRY(database.integer("PRAGMA schema_version"));
  if (const int added = store::add_word_functions(handle); added != SQLITE_OK) return failure(handle, added);
  return database;
}

Result<Database> Database::open(const std::filesystem::path& path, Mode mode) {
  std::error_code error;
  const bool exists = std::filesystem::is_regular_file(path, error);
  if (mode != Mode::kCreate && !exists) return fail(ErrorCode::kNotFound, "{}: no such file", path.string());
  if (mode == Mode::kCreate) {
    return open_as(uri_of(path, ""), SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, mode).in(path.string());
  }
  // In WAL mode a reader keeps its position in a file beside the database ("-shm"), so it opens for writing
  // if permitted. Otherwise, if no log is waiting to be read, SQLite is told that the file is immutable. If a
  // user with write permission starts writing meanwhile, look-ups can fail. The collection must then be
  // reopened.
  auto database = open_as(uri_of(path, ""), SQLITE_OPEN_READWRITE, mode);
  if (!database && database.error().code == ErrorCode::kIo && mode == Mode::kRead &&
      ::access(path.parent_path().c_str(), W_OK) != 0) {
    const std::filesystem::path log = path.string() + "-wal";
    if (!std::filesystem::exists(log, error) || std::filesystem::file_size(log, error) == 0) {
      database = open_as(uri_of(path, "?immutable=1"), SQLITE_OPEN_READONLY, mode);
    }
  }
  return std::move(database).in(path.string());
}

Result<Database> Database::in_memory() {
  return open_as(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, Mode::kCreate);
}

Status Database::execute(const std::string& sql) {
  const int result = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (result != SQLITE_OK) return failure(handle_, result);
  return {};
}

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int result =
      sqlite3_prepare_v2(handle_, sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  if (result != SQLITE_OK) return failure(handle_, result);
  return Statement(statement);
}

Result<KeptStatement> Database::kept(std::string_view sql) {
  auto known = kept_.find(sql);
  if (known == kept_.end()) {
    SACCADE_ASSIGN(Statement statement, prepare(sql));
    known = kept_.emplace(std::string(sql), std::move(statement)).first;
  }
  return KeptStatement(known->second);
}

Result<int64_t> Database::integer(std::string_view sql) {
  SACCADE_ASSIGN(Statement statement, prepare(sql));
  SACCADE_ASSIGN(const bool row, statement.step());
  if (!row) return fail(ErrorCode::kBadData, "nothing there: {}", sql);
  return statement.integer(0);
}

Result<std::string> Database::text(std::string_view sql) {
  SACCADE_ASSIGN(Statement statement, prepare(sql));
  SACCADE_ASSIGN(const bool row, statement.step());
  if (!row) return fail(ErrorCode::kBadData, "nothing there: {}", sql);
  return statement.text(0);
}

int64_t Database::last_id() const {
  return sqlite3_last_insert_rowid(handle_);
}
int64_t Database::changes() const {
  return sqlite3_changes64(handle_);
}

Result<Transaction> Transaction::begin(Database& database) {
  SACCADE_TRY(database.execute("BEGIN IMMEDIATE"));
  return Transaction(&database);
}

Transaction::~Transaction() {
  // Fails only where SQLite has already rolled back itself (a full disk).
  if (database_ != nullptr) static_cast<void>(database_->execute("ROLLBACK").has_value());
}

Status Transaction::commit() {
  SACCADE_TRY(database_->execute("COMMIT"));
  database_ = nullptr;
  return {};
}

}  // namespace saccade
