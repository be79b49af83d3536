package agent

import "net/http"

// ErrorCode returns the Result.Code for the HTTP status of an answer of a model's
// API. It returns "" for a status that is no failure.
func ErrorCode(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication"
	case http.StatusPaymentRequired:
		return "billing"
	case http.StatusForbidden:
		return "forbidden"
	case http.StatusNotFound:
		return "not_found"
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return "timeout"
	case http.StatusTooManyRequests:
		return "rate_limit"
	case http.StatusServiceUnavailable, 529:
		return "overloaded"
	}
	switch {
	case status >= 400 && status < 500:
		return "invalid_request"
	case status >= 500 && status < 600:
		return "server_error"
	}
	return ""
}
